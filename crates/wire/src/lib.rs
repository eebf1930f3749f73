//! Packet codecs: bytes in, bytes out, one file per protocol.
