package main

import (
	"fmt"
	"strings"
	"unicode"
)

// wholeWords has the Go spelling of words that need more than a capital first letter: initialisms,
// and words that consist of several words.
var wholeWords = map[string]string{
	"resok": "ResOK", "resfail": "ResFail", "ok": "OK", "id": "ID", "uid": "UID",
	"gid": "GID", "eof": "EOF", "fh": "FH", "io": "IO", "nfs": "NFS",
	"nf": "NF", "nlm": "NLM", "fsid": "FSID", "fileid": "FileID", "acl": "ACL",
	"nxio": "NXIO", "rofs": "ROFS", "cb": "CB", "ace": "ACE", "gss": "GSS", "rdma": "RDMA",
	"utf": "UTF", "pnfs": "PNFS",
}

// goName returns the exported Go name of a definition. It is the name in the @go annotation or,
// without one, the words of the XDR name, each with a capital first letter. A word ends at an
// underscore, and where digits begin or end.
func goName(h *header) string {
	if h.notes.goName != "" {
		return h.notes.goName
	}
	return camel(h.name)
}

func camel(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		for part != "" {
			n := 1
			for n < len(part) && unicode.IsDigit(rune(part[n])) == unicode.IsDigit(rune(part[0])) {
				n++
			}
			b.WriteString(capital(part[:n]))
			part = part[n:]
		}
	}
	return b.String()
}

func capital(word string) string {
	if w, ok := wholeWords[strings.ToLower(word)]; ok {
		return w
	}
	if word == strings.ToUpper(word) {
		word = strings.ToLower(word)
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

// procedureName returns the Go name of a procedure's constant, such as ProcGetattr for
// NFSPROC3_GETATTR.
func procedureName(prefix string, h *header) string {
	if h.notes.goName != "" {
		return prefix + "Proc" + h.notes.goName
	}
	name := h.name
	if _, after, ok := strings.Cut(name, "_"); ok {
		name = after
	}
	return prefix + "Proc" + camel(name)
}

// documentation returns the doc comment of the Go name that is generated for h.
func documentation(name string, h *header, what string) string {
	text := fmt.Sprintf("// %s is the XDR %s %s.", name, what, h.name)
	if h.doc != "" {
		text += "\n// " + strings.ReplaceAll(h.doc, "\n", "\n// ")
	}
	return text
}
