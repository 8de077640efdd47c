// Package xdr is the codec for External Data Representation (RFC 4506) as an RPC server needs it:
// a cursor that decodes in place and a writer that encodes into a buffer that its caller owns.
//
// Two things distinguish it from a general codec. First, payload need not be in the contiguous
// stream: a Decoder reads opaque items that a transport received separately (the Read chunks of
// RFC 8166 §3.4.5), and a Writer keeps references to payload, which it never copies, and marks
// the payload that may travel by direct data placement. Second, neither allocates: scalars are
// read from the slice, opaque items are sub-slices of it, and a Writer that runs out of room
// remembers that instead of growing, because its buffer is memory that a device may have
// registered.
//
// The package knows nothing of RPC messages, programs or transports.
package xdr
