// Package wire holds the wire formats of iWARP over TCP: MPA start-up frames, FPDUs and markers
// (RFC 5044), the enhanced connection data (RFC 6581), DDP headers (RFC 5041) and RDMAP headers
// (RFC 5040). Each format has its own file, with a Parse and a Put.
//
// Nothing here keeps state, does I/O or allocates. Parse functions check lengths, and reject a
// header that they cannot read. The caller decides whether a value is acceptable, because only
// the caller knows which Cause a fault has. Put functions write into memory that the caller
// sized, and panic when it is too small.
package wire
