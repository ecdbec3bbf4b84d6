"""The protocol's messages as protobuf classes, with its own names and numbers; only what a batch needs is here.
What is sent to an endpoint and what comes back is made of them.

The classes are built when this module is imported, so no generated code is kept and no compiler is needed to
install. Fields that are not listed are ignored when read, as protobuf always does.
"""

import re
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "inference.GRPCInferenceService"
_PACKAGE = "inference"
# Each message, and its fields as in a .proto file; `one` marks the fields of a oneof.
_MESSAGES = {
    "ModelReadyRequest": "string name = 1; string version = 2",
    "ModelReadyResponse": "bool ready = 1",
    "ModelMetadataRequest": "string name = 1; string version = 2",
    "ModelMetadataResponse": "repeated ModelMetadataResponse.TensorMetadata inputs = 4",
    "ModelMetadataResponse.TensorMetadata": "string name = 1; string datatype = 2; repeated int64 shape = 3",
    "InferParameter": (
        "one bool bool_param = 1; one int64 int64_param = 2; one string string_param = 3;"
        "one double double_param = 4"
    ),
    "InferTensorContents": (
        "repeated bool bool_contents = 1; repeated int32 int_contents = 2; repeated int64 int64_contents = 3;"
        "repeated uint32 uint_contents = 4; repeated uint64 uint64_contents = 5; repeated float fp32_contents = 6;"
        "repeated double fp64_contents = 7; repeated bytes bytes_contents = 8"
    ),
    "ModelInferRequest": (
        "string model_name = 1; string model_version = 2; string id = 3; map InferParameter parameters = 4;"
        "repeated ModelInferRequest.InferInputTensor inputs = 5;"
        "repeated ModelInferRequest.InferRequestedOutputTensor outputs = 6; repeated bytes raw_input_contents = 7"
    ),
    "ModelInferRequest.InferInputTensor": (
        "string name = 1; string datatype = 2; repeated int64 shape = 3; InferTensorContents contents = 5"
    ),
    "ModelInferRequest.InferRequestedOutputTensor": "string name = 1",
    "ModelInferResponse": (
        "string model_name = 1; string model_version = 2; string id = 3;"
        "repeated ModelInferResponse.InferOutputTensor outputs = 5; repeated bytes raw_output_contents = 6"
    ),
    "ModelInferResponse.InferOutputTensor": (
        "string name = 1; string datatype = 2; repeated int64 shape = 3; InferTensorContents contents = 5"
    ),
}
_FIELD = re.compile(r"(?:(repeated|map|one) )?([\w.]+) (\w+) = (\d+)")
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "double": _Field.TYPE_DOUBLE,
    "float": _Field.TYPE_FLOAT,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
}


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="penstock/oip.proto", package=_PACKAGE, syntax="proto3")
    built: dict[str, descriptor_pb2.DescriptorProto] = {}
    for path, fields in _MESSAGES.items():
        above, _, name = path.rpartition(".")
        message = built[above].nested_type.add() if above else file.message_type.add()
        message.name = name
        built[path] = message
        for text in fields.split(";"):
            _add_field(message, path, text.strip())
    return file


def _add_field(message: descriptor_pb2.DescriptorProto, path: str, text: str) -> None:
    match = _FIELD.fullmatch(text)
    assert match is not None, text
    manner, kind, name, number = match.groups()
    field = message.field.add(name=name, number=int(number))
    field.label = _Field.LABEL_REPEATED if manner in ("repeated", "map") else _Field.LABEL_OPTIONAL
    if manner == "map":  # on the wire a map is a list of pairs, each a message of its own
        entry = message.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        _add_field(entry, path, "string key = 1")
        _add_field(entry, path, f"{kind} value = 2")
        kind = f"{path}.{entry.name}"
    if manner == "one":  # a oneof: at most one of these fields is set
        if not message.oneof_decl:
            message.oneof_decl.add(name="parameter_choice")
        field.oneof_index = 0
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


# A pool of its own: another client of the protocol in this process may have these names in the common pool.
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def _made(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


ModelReadyRequest = _made("ModelReadyRequest")
ModelReadyResponse = _made("ModelReadyResponse")
ModelMetadataRequest = _made("ModelMetadataRequest")
ModelMetadataResponse = _made("ModelMetadataResponse")
ModelInferRequest = _made("ModelInferRequest")
ModelInferResponse = _made("ModelInferResponse")
