// Package wire holds the wire formats of iWARP over TCP: MPA start-up frames, FPDUs and markers
// (RFC 5044), the enhanced connection data (RFC 6581), DDP headers (RFC 5041) and RDMAP headers
// (RFC 5040). Most formats have a Parse function and a Put method.
//
// No function does I/O or allocates, except for errors and texts. Parse functions reject a header
// that they cannot read. Except ParseTermination they panic if they get fewer bytes than the header
// has. The caller decides whether a value is acceptable, because only the caller knows which Cause
// a fault has. Put methods write into memory that the caller sized, and panic if it is too small.
package wire
