package main

import (
	"fmt"
	"strings"
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
			for n < len(part) && isDigit(part[n]) == isDigit(part[0]) {
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

// checkGoNames refuses definitions whose Go names collide.
func (m *model) checkGoNames() error {
	seen := map[string]string{}
	check := func(h *header) error {
		name := goName(h)
		if other, ok := seen[name]; ok {
			return m.errorf(h.line, "%s and %s are both %s in Go", other, h.name, name)
		}
		seen[name] = h.name
		return nil
	}
	programs := map[string]string{}
	for _, d := range m.spec.definitions {
		if p, ok := d.(*programDef); ok {
			if other, ok := programs[p.notes.goName]; ok {
				return m.errorf(p.line, "%s needs another prefix (@go) than %s", p.name, other)
			}
			programs[p.notes.goName] = p.name
			continue
		}
		if t, ok := d.(*typedefDef); ok && m.vanishes(t) {
			continue
		}
		if err := check(d.head()); err != nil {
			return err
		}
		if e, ok := d.(*enumDef); ok {
			for i := range e.members {
				if err := check(&e.members[i].header); err != nil {
					return err
				}
			}
		}
		fields := map[string]bool{}
		if err := declarations(d, func(f *declaration) error {
			if _, ok := d.(*typedefDef); ok {
				return nil
			}
			if fields[goName(&f.header)] {
				return m.errorf(f.line, "two fields of %s are %s in Go", d.head().name, goName(&f.header))
			}
			fields[goName(&f.header)] = true
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// documentation returns the doc comment of the Go name that is generated for h.
func documentation(name string, h *header, what string) string {
	text := fmt.Sprintf("// %s is the XDR %s %s.", name, what, h.name)
	if h.doc != "" {
		text += "\n// " + strings.ReplaceAll(h.doc, "\n", "\n// ")
	}
	return text
}
