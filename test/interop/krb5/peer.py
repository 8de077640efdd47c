"""One end of a security context, by MIT's library.

Usage: peer.py initiate|accept TARGET MUTUAL BINDINGS

Reads requests, one JSON object a line, and answers each by one. Bytes are in
hexadecimal. TARGET is the acceptor as a service, nfs@host; MUTUAL is 1 or 0; BINDINGS
is the application data of channel bindings, empty for none.
"""

import json
import sys

import gssapi
from gssapi.raw import ChannelBindings, IOV, IOVBufferType, wrap_iov

FLAGS = gssapi.RequirementFlag


def make_context(role, target, mutual, bindings):
    name = gssapi.Name(target, gssapi.NameType.hostbased_service)
    bound = ChannelBindings(application_data=bindings.encode()) if bindings else None
    if role == "accept":
        own = gssapi.Credentials(name=name, usage="accept")
        return gssapi.SecurityContext(creds=own, usage="accept", channel_bindings=bound)
    flags = FLAGS.integrity | FLAGS.confidentiality
    if mutual:
        flags |= FLAGS.mutual_authentication
    return gssapi.SecurityContext(name=name, flags=flags, usage="initiate", channel_bindings=bound)


def step(ctx, token=None):
    out = ctx.step(bytes.fromhex(token) if token is not None else None)
    return {"token": out.hex() if out else "", "complete": ctx.complete}


def names(ctx):
    return {"initiator": str(ctx.initiator_name), "lifetime": ctx.lifetime}


def mic(ctx, message):
    return {"token": ctx.get_signature(bytes.fromhex(message)).hex()}


def verify(ctx, message, token):
    ctx.verify_signature(bytes.fromhex(message), bytes.fromhex(token))
    return {}


def wrap(ctx, message, sealed):
    out = ctx.wrap(bytes.fromhex(message), sealed)
    return {"token": out.message.hex(), "sealed": out.encrypted}


def wrap_in_front(ctx, message, sealed):
    """Puts all that is added before the message, which takes a rotation."""
    iov = IOV(IOVBufferType.header, bytes.fromhex(message), std_layout=False)
    wrap_iov(ctx, iov, confidential=sealed)
    return {"token": b"".join(b.value for b in iov if b.value).hex(), "sealed": sealed}


def unwrap(ctx, token):
    out = ctx.unwrap(bytes.fromhex(token))
    return {"message": out.message.hex(), "sealed": out.encrypted}


REQUESTS = {f.__name__: f for f in (step, names, mic, verify, wrap, wrap_in_front, unwrap)}


def main():
    role, target, mutual, bindings = sys.argv[1:]
    ctx = make_context(role, target, mutual == "1", bindings)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = REQUESTS[request.pop("do")](ctx, **request)
        except gssapi.exceptions.GSSError as error:
            answer = {"error": str(error), "minor": error.min_code & 0xFFFFFFFF}
        print(json.dumps(answer), flush=True)


main()
