// Package wire holds the wire formats of iWARP over TCP: MPA start-up frames,
// FPDUs and markers (RFC 5044), the enhanced connection data (RFC 6581), DDP
// headers (RFC 5041) and RDMAP headers (RFC 5040), a format a file, each with
// a Parse and a Put.
//
// Nothing here keeps state or does I/O, and nothing allocates. Parse functions
// check lengths and what makes a header unreadable; whether a value is
// acceptable is for the caller to say, which knows the fault's name. Put
// functions write into memory that the caller sized and panic when it is too
// small.
package wire
