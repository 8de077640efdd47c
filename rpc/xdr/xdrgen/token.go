package main

import (
	"bytes"
	"strings"
	"text/scanner"
)

// A token is a name, a number or a punctuation mark, with the comments before it. kind is
// scanner.Ident, scanner.Int, scanner.EOF or the punctuation mark.
type token struct {
	kind  rune
	text  string
	line  int
	notes notes
	doc   string
}

// tokenize splits text into tokens by the rules of RFC 4506 §6.2. It skips lines that begin with %,
// because these are for the C output of rpcgen. The last token is scanner.EOF.
func tokenize(text []byte) (tokens []token) {
	var s scanner.Scanner
	s.Init(bytes.NewReader(text))
	s.Mode = scanner.ScanIdents | scanner.ScanInts | scanner.ScanComments
	s.Error = func(*scanner.Scanner, string) {} // malformed numbers are reported by the parser
	s.IsIdentRune = func(c rune, i int) bool {
		return 'a' <= c|0x20 && c|0x20 <= 'z' || i > 0 && (c == '_' || '0' <= c && c <= '9')
	}
	var t token
	commented := 0 // the line at which the last comment ends
	for {
		t.kind = s.Scan()
		t.line, t.text = s.Position.Line, s.TokenText()
		if t.line > commented+1 {
			t.doc = "" // an empty line separates a comment from the next token
		}
		switch {
		case t.kind == scanner.Comment:
			commented = s.Pos().Line
			t.comment()
			continue
		case t.kind == '%' && s.Position.Column == 1:
			for c := s.Next(); c != '\n' && c != scanner.EOF; c = s.Next() {
			}
			commented = s.Pos().Line - 1
			continue
		case t.kind > 0 && !strings.ContainsRune("{}()[]<>*=,;:-", t.kind):
			fail(t.line, "character %q has no meaning", t.kind)
		}
		tokens = append(tokens, t)
		if t.kind == scanner.EOF {
			return tokens
		}
		t = token{}
	}
}

// comment stores the comment t.text, which is before the token t, in t. A comment that starts with
// "@" is an annotation. Any other comment of the form /* text */ becomes t.doc.
func (t *token) comment() {
	body, ok := strings.CutPrefix(t.text, "/*")
	if !ok {
		return
	}
	if body, ok = strings.CutSuffix(body, "*/"); !ok {
		fail(t.line, "comment without an end")
	}
	if note, ok := strings.CutPrefix(body, "@"); ok {
		t.notes.add(note, t.line)
		return
	}
	var lines []string
	for line := range strings.SplitSeq(body, "\n") {
		line = strings.TrimSpace(line)
		line = strings.TrimSpace(strings.TrimPrefix(line, "*"))
		if line != "" {
			lines = append(lines, line)
		}
	}
	t.doc = strings.Join(lines, "\n")
}
