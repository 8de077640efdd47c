package server

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
)

// plain returns a client's text as it is if it is plain text, else "0x" and its bytes in hexadecimal. A text that begins
// with "0x" itself counts as not plain.
func plain(s string) string {
	if admin.IsPlain(s) && !strings.HasPrefix(s, "0x") {
		return s
	}
	return "0x" + hex.EncodeToString([]byte(s))
}

// plainPath returns an absolute path as it is if it is plain text, else in Go's quotes, from which its bytes can be had
// again. No absolute path begins with a quote.
func plainPath(path string) string {
	if admin.IsPlain(path) {
		return path
	}
	return strconv.QuoteToASCII(path)
}
