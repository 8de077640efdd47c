// Package xdr is a codec for External Data Representation (RFC 4506) for RPC. A Decoder decodes in
// place. A Writer encodes into a buffer that its caller owns.
//
// It differs from a general codec in two ways. First, payload need not be in the stream that is
// read or written. A Decoder reads opaque items that a transport received separately (the Read
// chunks of RFC 8166 §3.4.5). A Writer stores references to payload, which it never copies, and
// marks the payload that is eligible for direct data placement. Second, neither allocates memory,
// except that a Writer with more than two payloads allocates the list of payloads. A Decoder
// returns opaque items as sub-slices of the stream. A Writer whose buffer is full sets an error
// instead of growing, because its buffer may be memory that is registered with a device.
//
// The package is independent of RPC messages, programs and transports.
package xdr
