package manpage

import (
	"fmt"
	"regexp"
	"strings"
)

// A page is a manual page in the macros of man(7).
type page struct{ strings.Builder }

// newPage begins a page with its header. The version stands in the footer.
func newPage(name string, section int, version, purpose string) *page {
	p := &page{}
	fmt.Fprintf(p, ".TH %q %d \"\" %q \"nfsrdmad\"\n", strings.ToUpper(name), section, escaped("nfsrdmad "+version))
	p.heading("NAME")
	p.WriteString(escaped(name) + ` \- ` + escaped(purpose) + "\n")
	return p
}

func (p *page) heading(text string) { fmt.Fprintf(p, ".SH %s\n", escaped(text)) }

// item writes a paragraph with a tag, such as a flag. Both are roff.
func (p *page) item(tag, text string) { fmt.Fprintf(p, ".TP\n%s\n%s\n", tag, line(text)) }

// code writes lines as they are.
func (p *page) code(text string) {
	p.WriteString(".PP\n.nf\n.RS\n")
	for l := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		p.WriteString(line(escaped(l)) + "\n")
	}
	p.WriteString(".RE\n.fi\n")
}

// text writes the paragraphs of a help text. A blank line separates them. If each line of a paragraph
// begins with a space, the paragraph keeps its lines.
func (p *page) text(help string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(help), "\n\n") {
		lines := strings.Split(strings.Trim(paragraph, "\n"), "\n")
		kept := true
		for _, l := range lines {
			kept = kept && strings.HasPrefix(l, " ")
		}
		if kept {
			p.code(paragraph)
			continue
		}
		p.WriteString(".PP\n")
		for _, l := range lines {
			p.WriteString(line(escaped(l)) + "\n")
		}
	}
}

// bold returns escaped text in bold type.
func bold(text string) string { return `\fB` + escaped(text) + `\fR` }

var special = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", "\\(ga", `^`, `\(ha`, `~`, `\(ti`, `"`, `\(dq`)

// escaped returns text with roff's special characters escaped. Then man shows the same characters, which
// users can paste into a shell.
func escaped(text string) string { return special.Replace(text) }

// line protects a line whose first character would make it a request.
func line(roff string) string {
	if strings.HasPrefix(roff, ".") {
		return `\&` + roff
	}
	return roff
}

var (
	link = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`)
	span = regexp.MustCompile("`([^`]+)`")
)

// markdown returns the roff of a sentence of docs/configuration.md: with `code` in bold type, and the
// text of links.
func markdown(text string) string {
	text = link.ReplaceAllString(text, "$1")
	var b strings.Builder
	at := 0
	for _, m := range span.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(escaped(text[at:m[0]]) + bold(text[m[2]:m[3]]))
		at = m[1]
	}
	return b.String() + escaped(text[at:])
}
