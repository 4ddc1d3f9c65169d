"""A form's parts (multipart/form-data), as the parser finds them."""

from python_multipart.multipart import MultipartParser, parse_options_header

MAX_CONTENT_TYPE_BYTES = 1000  # of a form: 60 KB of semicolons take 40 ms
_MOST_BOUNDARY_BYTES = 70


def boundary_of(content_type: bytes) -> bytes:
    """The boundary in a form's type; b"" if there is none, or one longer than the standard allows."""
    boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
    return boundary if len(boundary) <= _MOST_BOUNDARY_BYTES else b""


class PartReader:
    """Reads each part's headers; a subclass reads what it is and holds."""

    def __init__(self, boundary: bytes) -> None:
        self.headers: list[tuple[bytes, bytes]] = []  # of the part, names in lower case
        self.whole = False  # the form's end was read
        self._name = self._value = b""
        self.parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self.headers.clear,
                "on_header_field": self._on_name,
                "on_header_value": self._on_value,
                "on_header_end": self._on_header,
                "on_headers_finished": self.on_part,
                "on_part_data": self.on_data,
                "on_part_end": self.on_part_end,
                "on_end": self._on_end,
            },
        )

    def on_part(self) -> None:
        """A part begins; its headers are read."""
        raise NotImplementedError

    def on_data(self, data: bytes, start: int, end: int) -> None:
        """A piece of the part's content: `data[start:end]`."""
        raise NotImplementedError

    def on_part_end(self) -> None:
        """The part is whole."""

    def _on_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header(self) -> None:
        self.headers.append((self._name.strip().lower(), self._value))
        self._name = self._value = b""

    def _on_end(self) -> None:
        self.whole = True
