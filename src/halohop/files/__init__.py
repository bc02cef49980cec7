"""Files that are there whole or not at all, and files that are read as they may have been left.

with whole_file(Path("model.bin")) as stream:      # appears under its name when all of it is on the disk
    stream.write(data)
with sealed_file(Path("state.bin")) as stream:     # the same, with a checksum at its end
    stream.write(data)
data = read_sealed(Path("state.bin"))              # refused if a byte has changed
"""

from halohop.files.aside import remove, writing
from halohop.files.private import refuse_links
from halohop.files.reading import decode_json, read_regular
from halohop.files.url_folder import UrlFolder
from halohop.files.urls import is_url, masked, refuse_url
from halohop.files.validation import validate
from halohop.files.whole import check_sealed, read_sealed, sealed_file, whole_file, write_file

__all__ = [
    "UrlFolder",
    "check_sealed",
    "decode_json",
    "is_url",
    "masked",
    "read_regular",
    "read_sealed",
    "refuse_links",
    "refuse_url",
    "remove",
    "sealed_file",
    "validate",
    "whole_file",
    "write_file",
    "writing",
]
