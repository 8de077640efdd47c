package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// A table writes lines whose cells stand below each other.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer) *table { return &table{tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)} }

// line writes a line. The first cell is the first argument, and the other arguments are one cell, with spaces between.
func (t *table) line(name string, value ...any) {
	fmt.Fprint(t.w, name, "\t", harmless(strings.TrimSuffix(fmt.Sprintln(value...), "\n")), "\n")
}

// cells writes a line with one cell for each argument.
func (t *table) cells(all []any) {
	for i, c := range all {
		if i > 0 {
			io.WriteString(t.w, "\t")
		}
		io.WriteString(t.w, harmless(fmt.Sprint(c)))
	}
	io.WriteString(t.w, "\n")
}

// An entry is an element of a list that can be a line of a table.
type entry interface {
	heads() []any
	row() []any
}

// Cells returns the heads of a list and the cells of its first entries, as commands print them, and the number of entries
// beyond these.
func Cells[E any, P interface {
	*E
	entry
}](all iter.Seq[P], most int) (heads []string, rows [][]string, more int) {
	texts := func(cells []any) (all []string) {
		for _, c := range cells {
			all = append(all, harmless(fmt.Sprint(c)))
		}
		return all
	}
	for e := range all {
		if len(rows) == most {
			more++
			continue
		}
		rows = append(rows, texts(e.row()))
	}
	return texts(P(new(E)).heads()), rows, more
}

// PrintList returns a function that writes the array in a body as a table, with a line of heads.
func PrintList[E any, P interface {
	*E
	entry
}](out io.Writer) func(body io.Reader) error {
	return func(body io.Reader) error {
		t := newTable(out)
		t.cells(P(new(E)).heads())
		for e, err := range elements[E](body) {
			if err != nil {
				return err
			}
			t.cells(P(e).row())
		}
		return t.w.Flush()
	}
}

// PrintOne returns a function that writes the object in a body as lines of name and value.
func PrintOne[T any, P interface {
	*T
	lines(*table)
}](out io.Writer) func(body io.Reader) error {
	return func(body io.Reader) error {
		v := new(T)
		if err := json.NewDecoder(body).Decode(v); err != nil {
			return fmt.Errorf("the answer of the daemon cannot be read: %w", err)
		}
		t := newTable(out)
		P(v).lines(t)
		return t.w.Flush()
	}
}

// since returns how long ago a time was, in its two largest units at most.
func since(t time.Time) string {
	d := time.Since(t)
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func orNone(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// numbers returns a list of numbers.
func numbers(all []int) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.Itoa(n)
	}
	return orNone(texts)
}

// size returns a number of bytes with the unit of the configuration file.
func size(n int64) string {
	for _, u := range []struct {
		name string
		n    int64
	}{{"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}} {
		if n >= u.n {
			return fmt.Sprintf("%.1f%s", float64(n)/float64(u.n), u.name)
		}
	}
	return strconv.FormatInt(n, 10)
}

// harmless returns s with a question mark for each character that may do something to a terminal: another program than a
// daemon may have answered.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// IsPlain reports whether s is UTF-8 that does nothing to a terminal.
func IsPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) })
}

// quoted returns a text of a client, which may have any bytes: as it is if it is harmless on a terminal, else quoted.
func quoted(s string) string {
	if s == "" || !IsPlain(s) || strings.ContainsAny(s, `"\`) {
		return strconv.Quote(s)
	}
	return s
}
