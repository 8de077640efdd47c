package hostileservers_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
)

// inert has servers that know nothing of RPC or iWARP, by their functions for one connection. The connection is closed when
// its function returns. A server without a function neither reads nor writes.
var inert = map[string]func(c net.Conn){
	"closes":  func(net.Conn) {},
	"silent":  func(c net.Conn) { io.Copy(io.Discard, c) },
	"echoes":  func(c net.Conn) { io.Copy(c, c) },
	"greets":  afterGreeting("220 mail.example ESMTP\r\n"),
	"ssh":     afterGreeting("SSH-2.0-OpenSSH_9.6\r\n"),
	"http":    afterFirst([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")),
	"tls":     afterFirst([]byte{0x15, 3, 1, 0, 2, 2, 10}),
	"zeros":   afterFirst(make([]byte, 1<<20)),
	"ones":    afterFirst(bytes.Repeat([]byte{0xff}, 1<<20)),
	"resets":  reset,
	"deaf":    nil,
	"endless": endless,
	// The header announces a record of 2 GiB - 1. The first 8 MiB follow.
	"long record": afterFirst(append([]byte{0xff, 0xff, 0xff, 0xff}, make([]byte, 8<<20)...)),
	// Fragments without octets, and without an end.
	"empty fragments": afterFirst(make([]byte, 4<<20)),
	// A record whose octets come one at a time, and not all.
	"drips":           drip,
	"short MPA reply": afterFirst([]byte("MPA ID Rep Frame")),
	// The private data of this MPA reply has 65,535 octets.
	"long private data": afterFirst(append([]byte("MPA ID Rep Frame\x00\x01\xff\xff"), make([]byte, 1<<16)...)),
	"MPA rejection":     afterFirst([]byte("MPA ID Rep Frame\x20\x01\x00\x00")),
	// FPDUs of length 0, without a CRC that fits.
	"MPA, then zeros": afterFirst(append([]byte("MPA ID Rep Frame\x00\x01\x00\x00"), make([]byte, 1<<20)...)),
}

func afterGreeting(greeting string) func(c net.Conn) {
	return func(c net.Conn) {
		io.WriteString(c, greeting)
		io.Copy(io.Discard, c)
	}
}

// afterFirst sends answer after the peer's first octets, and then reads until the peer ends the connection.
func afterFirst(answer []byte) func(c net.Conn) {
	return func(c net.Conn) {
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			return
		}
		go c.Write(answer)
		io.Copy(io.Discard, c)
	}
}

func reset(c net.Conn) {
	c.Read(make([]byte, 16))
	c.(*net.TCPConn).SetLinger(0)
}

// endless answers the first octets with records without end. Each is an RPC reply with the transaction ID of no call.
func endless(c net.Conn) {
	if _, err := c.Read(make([]byte, 4096)); err != nil {
		return
	}
	reply := make([]byte, 28)
	for xid := uint32(0); ; xid++ {
		binary.BigEndian.PutUint32(reply, 1<<31|24)
		binary.BigEndian.PutUint32(reply[4:], xid)
		binary.BigEndian.PutUint32(reply[8:], 1)
		if _, err := c.Write(bytes.Repeat(reply, 512)); err != nil {
			return
		}
	}
}

// drip sends the octets of a record of 4 KiB one at a time, but not the last one.
func drip(c net.Conn) {
	if _, err := c.Read(make([]byte, 4096)); err != nil {
		return
	}
	c.Write([]byte{0x80, 0, 0x10, 0})
	for range 4095 {
		if _, err := c.Write([]byte{0}); err != nil {
			return
		}
	}
	io.Copy(io.Discard, c)
}
