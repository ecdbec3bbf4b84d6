"""Reads a `.proto` file into the description that protobuf makes classes of. `messages.py` calls `read` with each
file in this folder. Of the language only what those files use is understood: messages, enums, oneofs, maps and
services. Pure."""

import re
from collections.abc import Iterator

from google.protobuf import descriptor_pb2

_TOKEN = re.compile(r"//[^\n]*|\s+|(\w+(?:\.\w+)*|\"[^\"]*\"|[{}()<>=;,])")
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


def read(name: str, text: str) -> descriptor_pb2.FileDescriptorProto:
    """Returns the description of one file. `name`: the name by which others may import the file. `text`: what the
    file holds."""
    return _Reader(name, text).file


class _Reader:
    """Reads one file, token by token."""

    def __init__(self, name: str, text: str) -> None:
        self._tokens: Iterator[str] = (match[1] for match in _TOKEN.finditer(text) if match[1])
        self.file = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto3")
        for word in self._tokens:
            if word == "package":
                self.file.package = self._next()
                self._expect(";")
            elif word == "message":
                self._message(self.file.message_type.add())
            elif word == "service":
                self._service()
            else:  # `syntax = "proto3";`
                while self._next() != ";":
                    pass
        self._look_up()

    def _next(self) -> str:
        return next(self._tokens)

    def _expect(self, *tokens: str) -> None:
        """Reads these tokens. A file of ours with other tokens is a mistake of ours."""
        for token in tokens:
            found = self._next()
            assert found == token, f"{self.file.name}: expected {token!r}, found {found!r}"

    def _message(self, message: descriptor_pb2.DescriptorProto) -> None:
        message.name = self._next()
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "message":
                self._message(message.nested_type.add())
            elif word == "enum":
                self._enum(message.enum_type.add())
            elif word == "oneof":
                index = len(message.oneof_decl)
                message.oneof_decl.add(name=self._next())
                self._expect("{")
                while (kind := self._next()) != "}":
                    self._field(message, kind).oneof_index = index
            elif word == "map":
                self._map(message)
            elif word == "repeated":
                self._field(message, self._next()).label = _Field.LABEL_REPEATED
            else:
                self._field(message, word)

    def _field(
        self, message: descriptor_pb2.DescriptorProto, kind: str
    ) -> descriptor_pb2.FieldDescriptorProto:
        field = message.field.add(name=self._next(), label=_Field.LABEL_OPTIONAL, type_name=kind)
        self._expect("=")
        field.number = int(self._next())
        self._expect(";")
        return field

    def _map(self, message: descriptor_pb2.DescriptorProto) -> None:
        """Read a map. On the wire it is a list of pairs, each a message of its own."""
        self._expect("<")
        key = self._next()
        self._expect(",")
        value = self._next()
        self._expect(">")
        field = self._field(message, "")
        entry = message.nested_type.add(name=f"{field.name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            entry.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL, type_name=kind)
        field.label, field.type_name = _Field.LABEL_REPEATED, entry.name

    def _enum(self, enum: descriptor_pb2.EnumDescriptorProto) -> None:
        enum.name = self._next()
        self._expect("{")
        while (word := self._next()) != "}":
            self._expect("=")
            enum.value.add(name=word, number=int(self._next()))
            self._expect(";")

    def _service(self) -> None:
        service = self.file.service.add(name=self._next())
        self._expect("{")
        while self._next() != "}":  # `rpc`
            method = service.method.add(name=self._next())
            method.input_type, method.client_streaming = self._side()
            self._expect("returns")
            method.output_type, method.server_streaming = self._side()
            self._expect(";")

    def _side(self) -> tuple[str, bool]:
        """Returns the message on one side of a method, and whether there may be several."""
        self._expect("(")
        kind = self._next()
        streams = kind == "stream"
        if streams:
            kind = self._next()
        self._expect(")")
        return f".{self.file.package}.{kind}", streams

    # ---- types ---------------------------------------------------------------------------------------------

    def _look_up(self) -> None:
        """Gives each field the full name of its type, which may stand after it in the file."""
        kinds: dict[str, bool] = {}  # full names, and whether each is an enum
        for message in self.file.message_type:
            self._collect(message, f".{self.file.package}", kinds)
        for message in self.file.message_type:
            self._resolve(message, f".{self.file.package}", kinds)

    def _collect(self, message: descriptor_pb2.DescriptorProto, above: str, kinds: dict[str, bool]) -> None:
        name = f"{above}.{message.name}"
        kinds[name] = False
        kinds |= {f"{name}.{enum.name}": True for enum in message.enum_type}
        for inner in message.nested_type:
            self._collect(inner, name, kinds)

    def _resolve(self, message: descriptor_pb2.DescriptorProto, above: str, kinds: dict[str, bool]) -> None:
        name = f"{above}.{message.name}"
        for field in message.field:
            said = field.type_name
            if said in _SCALARS:
                field.type = _SCALARS[said]
                field.ClearField("type_name")
                continue
            scope = name  # the innermost message in which there is such a type
            while f"{scope}.{said}" not in kinds:
                scope = scope.rpartition(".")[0]
                assert scope, f"{self.file.name}: there is no {said!r}"
            field.type_name = f"{scope}.{said}"
            field.type = _Field.TYPE_ENUM if kinds[field.type_name] else _Field.TYPE_MESSAGE
        for inner in message.nested_type:
            self._resolve(inner, name, kinds)
