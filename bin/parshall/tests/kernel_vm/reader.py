"""Reads netlink with nothing but sockets, as an independent witness of what Parshall sends.

reader.py FILE          joins PSAMPLE's "packets", NET_DM's group 1 and USERSOCK's group 29; appends a line of JSON for each
                        datagram: the channel, the family's number, the sender's port, the bytes in hexadecimal
reader.py send IF HEX   sends a frame on an interface

Numbers are of linux/netlink.h, linux/genetlink.h, linux/net_dropmon.h.
"""
import json
import select
import socket
import struct
import sys

NETLINK_GENERIC, NETLINK_USERSOCK = 16, 2
SOL_NETLINK, NETLINK_ADD_MEMBERSHIP = 270, 1
GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 3


def attributes(data):
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            return
        yield kind & 0x3FFF, data[4:length]
        data = data[(length + 3) & ~3:]


def family(name):
    """Number of a generic netlink family, and its groups by name."""
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
    value = name.encode() + b"\0"
    attribute = struct.pack("=HH", 4 + len(value), 2) + value
    attribute += bytes(-len(attribute) % 4)
    body = struct.pack("=BBH", CTRL_CMD_GETFAMILY, 1, 0) + attribute
    s.send(struct.pack("=IHHII", 16 + len(body), GENL_ID_CTRL, 1, 1, 0) + body)
    found = dict(attributes(s.recv(65536)[20:]))
    groups = {}
    for _, group in attributes(found[7]):
        one = dict(attributes(group))
        groups[one[1].rstrip(b"\0").decode()] = struct.unpack("=I", one[2])[0]
    return struct.unpack("=H", found[1])[0], groups


def joined(protocol, group):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    # Without a port of its own (bind) a socket gets nothing that is sent to groups.
    s.bind((0, 0))
    s.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
    return s


def listen(path):
    psample, groups = family("psample")
    dropmon, _ = family("NET_DM")
    channels = {
        joined(NETLINK_GENERIC, groups["packets"]): ("psample", psample),
        joined(NETLINK_GENERIC, 1): ("dropmon", dropmon),
        joined(NETLINK_USERSOCK, 29): ("usersock", 0),
    }
    with open(path, "w", buffering=1) as out:
        out.write(json.dumps({"channel": "ready"}) + "\n")
        while True:
            for s in select.select(list(channels), [], [])[0]:
                data, (port, groups) = s.recvfrom(65536)
                name, number = channels[s]
                line = {"channel": name, "family": number, "port": port, "groups": groups, "bytes": data.hex()}
                out.write(json.dumps(line) + "\n")


def send(interface, frame):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    s.bind((interface, 0))
    s.send(bytes.fromhex(frame))


if sys.argv[1] == "send":
    for frame in sys.argv[3:]:
        send(sys.argv[2], frame)
else:
    listen(sys.argv[1])
