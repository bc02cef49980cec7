"""Every exception that halohop raises, as one tree.

HalohopError
├── InputError (ValueError)        an argument that cannot work: names the value and the remedy
│   ├── SchemaError                an unknown node type, relation, column or split
│   └── IdError                    an id outside the graph
├── DatasetError                   a data set on disk
│   ├── IncompleteDatasetError     half-written, or a file is missing
│   ├── CorruptDatasetError        a file is not what the manifest says
│   └── VersionMismatchError       written by another format version
├── WriteError (OSError)           a file cannot be written: the disk is full, the folder not ours
├── NotFiniteError                 a model's loss or its predictions are NaN or infinite
├── BatchError                     a batch could not be produced; the cause is chained
├── TransportError                 names the peer, the operation and the deadline
│   ├── DeadlineExceededError (TimeoutError)   no answer in time
│   ├── PeerLostError              a peer went away and did not come back in time
│   ├── AuthenticationError        the peers do not share a token
│   ├── ProtocolError              the peer speaks another version, or not our protocol
│   ├── MessageTooLargeError       a message over the agreed size
│   └── RemoteError                the peer failed while answering; carries its traceback
└── ClusterError                   hosts and partitions that do not fit together
"""

import errno

__all__ = [
    "AuthenticationError",
    "BatchError",
    "ClusterError",
    "CorruptDatasetError",
    "DatasetError",
    "DeadlineExceededError",
    "HalohopError",
    "IdError",
    "IncompleteDatasetError",
    "InputError",
    "MessageTooLargeError",
    "NotFiniteError",
    "PeerLostError",
    "ProtocolError",
    "RemoteError",
    "SchemaError",
    "TransportError",
    "VersionMismatchError",
    "WriteError",
]


class HalohopError(Exception):
    """Base of all errors of halohop."""


class InputError(HalohopError, ValueError):
    """An argument that cannot work."""


class SchemaError(InputError):
    """An unknown node type, relation, column or split."""


class IdError(InputError):
    """An id that the graph does not have."""


class DatasetError(HalohopError):
    """A partitioned data set on disk cannot be used."""


class IncompleteDatasetError(DatasetError):
    """The data set was not written to its end, or a file is missing."""


class CorruptDatasetError(DatasetError):
    """A file differs from what the manifest says of it."""


class VersionMismatchError(DatasetError):
    """The data set was written in another format version."""


class WriteError(HalohopError, OSError):
    """A file or folder cannot be written: the disk is full, or it is not ours to write to."""

    @classmethod
    def of(cls, path: object, error: OSError) -> "WriteError":
        """What the operating system said when `path` was written.

        Example:
            >>> WriteError.of("run/resume.pt", OSError(errno.ENOSPC, "No space left on device"))
            WriteError('cannot write run/resume.pt: No space left on device; make room there, or choose another folder')
        """
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "make room there, or choose another folder" if full else "choose a name that may be written to"
        return cls(f"cannot write {path}: {error.strerror or error}; {remedy}")


class NotFiniteError(HalohopError):
    """A model's loss or its predictions are NaN or infinite."""


class BatchError(HalohopError):
    """A batch could not be produced; the failure is chained as its cause."""


class TransportError(HalohopError):
    """A call to a peer failed."""


class DeadlineExceededError(TransportError, TimeoutError):
    """No answer within the deadline."""


class PeerLostError(TransportError):
    """A peer went away and did not come back within the deadline."""


class AuthenticationError(TransportError):
    """The peers do not share a token."""


class ProtocolError(TransportError):
    """The peer speaks another protocol version, or sent something malformed."""


class MessageTooLargeError(TransportError):
    """A message exceeds the agreed size."""


class RemoteError(TransportError):
    """The peer failed while answering.

    Attributes:
        remote_traceback: the traceback as text, as it was printed on the peer.
    """

    def __init__(self, message: str, remote_traceback: str) -> None:
        super().__init__(f"{message}\n\nTraceback on the peer:\n{remote_traceback}")
        self.remote_traceback = remote_traceback


class ClusterError(HalohopError):
    """Hosts and partitions do not fit together."""
