"""The doors of gRPC's reflection: which services there are and what their messages look like, for tools such as
grpcurl. The data plane for gRPC calls them. What they tell is the content of the `.proto` files
(`penstock/protos/`)."""

from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2

from penstock.doors.grpc.calls import GrpcAbout
from penstock.doors.grpc.status import NOT_FOUND, UNIMPLEMENTED
from penstock.protos.messages import FILES, message


def _symbols(file: descriptor_pb2.FileDescriptorProto) -> Iterator[str]:
    for service in file.service:
        name = f"{file.package}.{service.name}"
        yield name
        yield from (f"{name}.{method.name}" for method in service.method)
    for each in file.message_type:
        yield from _names(each, file.package)


def _names(each: descriptor_pb2.DescriptorProto, above: str) -> Iterator[str]:
    name = f"{above}.{each.name}"
    yield name
    yield from (f"{name}.{enum.name}" for enum in each.enum_type)
    for inner in each.nested_type:
        yield from _names(inner, name)


_FILE_OF = {symbol: name for name, file in FILES.items() for symbol in _symbols(file)}


class Reflection(GrpcAbout):
    """The version that tools ask for first."""

    path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
    several = True
    request = message("grpc.reflection.v1.ServerReflectionRequest")
    response = message("grpc.reflection.v1.ServerReflectionResponse")

    def told(self, message: Any) -> Any:
        answer = self.response(valid_host=message.host, original_request=message)
        match message.WhichOneof("message_request"):
            case "list_services":
                for name in self.services:
                    answer.list_services_response.service.add(name=name)
            case "file_by_filename":
                self._tell_file(answer, message.file_by_filename)
            case "file_containing_symbol":
                self._tell_file(answer, _FILE_OF.get(message.file_containing_symbol, ""))
            case "all_extension_numbers_of_type" | "file_containing_extension":
                answer.error_response.error_code = NOT_FOUND
                answer.error_response.error_message = "no message here has extensions"
            case _:
                answer.error_response.error_code = UNIMPLEMENTED
                answer.error_response.error_message = "this request is not known"
        return answer

    def _tell_file(self, answer: Any, name: str) -> None:
        file = FILES.get(name)
        if file is None or not self._is_open(file):
            answer.error_response.error_code = NOT_FOUND
            answer.error_response.error_message = "there is no such file or symbol"
        else:
            answer.file_descriptor_response.file_descriptor_proto.append(file.SerializeToString())

    def _is_open(self, file: descriptor_pb2.FileDescriptorProto) -> bool:
        """Whether a file has no services, or one that is open."""
        names = [f"{file.package}.{service.name}" for service in file.service]
        return not names or any(name in self.services for name in names)


class ReflectionAlpha(Reflection):
    """The older version, which most clients know."""

    path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    request = message("grpc.reflection.v1alpha.ServerReflectionRequest")
    response = message("grpc.reflection.v1alpha.ServerReflectionResponse")
