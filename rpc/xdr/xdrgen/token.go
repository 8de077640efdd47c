package main

import (
	"fmt"
	"strings"
)

type tokenKind int

const (
	tokenEOF tokenKind = iota
	tokenName
	tokenNumber
	tokenPunct
)

// A token is a name, a number or a punctuation mark, with the comments before it.
type token struct {
	kind  tokenKind
	text  string
	line  int
	notes notes
	doc   string
}

// syntaxError is an error with its file and line. The parser panics with it; parse recovers it.
type syntaxError struct {
	file string
	line int
	msg  string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.file, e.line, e.msg) }

// tokenize splits text into tokens by the rules of RFC 4506 §6.2. It skips lines that begin with %,
// because these are for the C output of rpcgen.
func tokenize(file string, text []byte) ([]token, error) {
	l := &lexer{file: file, text: string(text), line: 1}
	var tokens []token
	for {
		t, err := l.next()
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
		if t.kind == tokenEOF {
			return tokens, nil
		}
	}
}

type lexer struct {
	file string
	text string
	off  int
	line int
}

func (l *lexer) errorf(format string, a ...any) error {
	return &syntaxError{l.file, l.line, fmt.Sprintf(format, a...)}
}

func (l *lexer) next() (token, error) {
	var t token
	for l.off < len(l.text) {
		rest := l.text[l.off:]
		switch c := rest[0]; {
		case c == '\n':
			if strings.HasPrefix(rest, "\n\n") {
				t.doc = "" // an empty line separates a comment from the next token
			}
			l.line++
			l.off++
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			l.off++
		case c == '%' && (l.off == 0 || l.text[l.off-1] == '\n'):
			l.skipLine(rest)
		case strings.HasPrefix(rest, "//"):
			l.skipLine(rest)
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return t, l.errorf("comment without an end")
			}
			if err := l.comment(&t, rest[2:2+end]); err != nil {
				return t, err
			}
			l.line += strings.Count(rest[:end+4], "\n")
			l.off += end + 4
		default:
			return l.word(t, rest)
		}
	}
	t.line = l.line
	return t, nil
}

func (l *lexer) skipLine(rest string) {
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		l.off += i
	} else {
		l.off = len(l.text)
	}
}

// comment handles a comment before token t. A comment that starts with "@" is an annotation:
// comment adds it to t.notes. Any other comment becomes t.doc.
func (l *lexer) comment(t *token, body string) error {
	if note, ok := strings.CutPrefix(body, "@"); ok {
		if err := t.notes.add(note); err != nil {
			return l.errorf("%v", err)
		}
		return nil
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
	return nil
}

func (l *lexer) word(t token, rest string) (token, error) {
	t.line = l.line
	n := 1
	switch c := rest[0]; {
	case isLetter(c):
		t.kind = tokenName
		for n < len(rest) && (isLetter(rest[n]) || isDigit(rest[n]) || rest[n] == '_') {
			n++
		}
	case isDigit(c) || c == '-':
		t.kind = tokenNumber
		for n < len(rest) && (isLetter(rest[n]) || isDigit(rest[n])) {
			n++
		}
	case strings.IndexByte("{}()[]<>*=,;:", c) >= 0:
		t.kind = tokenPunct
	default:
		return t, l.errorf("character %q has no meaning", c)
	}
	t.text = rest[:n]
	l.off += n
	return t, nil
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
