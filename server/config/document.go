package config

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// A document checks a configuration file before it is decoded. It finds out which keys the file
// sets, in which lines, and with which kinds of values. Its errors say in the user's words which
// values a key accepts; the errors of the decoder would name Go types.
type document struct {
	file   string
	parser unstable.Parser
	origin map[string]place
	// tables has the number of tables read so far for each list of tables, such as [[export]].
	tables map[string]int
}

// readDocument returns the place of each key that the file sets. It rejects unknown keys and
// values of a wrong kind. The decoder reports text that is not TOML.
func readDocument(file string, b []byte) (map[string]place, error) {
	d := &document{file: file, origin: make(map[string]place), tables: make(map[string]int)}
	d.parser.Reset(b)
	inside, prefix := reflect.TypeFor[Config](), ""
	for d.parser.NextExpression() {
		e := d.parser.Expression()
		var err error
		if e.Kind == unstable.KeyValue {
			err = d.keyValue(inside, prefix, e)
		} else {
			inside, prefix, err = d.table(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return d.origin, nil
}

// table handles a header: [table], or [[table]], which begins the next element of a list.
func (d *document) table(e *unstable.Node) (inside reflect.Type, prefix string, err error) {
	inside, prefix, last, err := d.resolve(reflect.TypeFor[Config](), "", e)
	if err != nil {
		return nil, "", err
	}
	name := lastPart(prefix)
	switch {
	case !isTable(inside):
		return nil, "", d.refuse(last, "%s is not a table: write %s = %s", name, name, usual(inside))
	case inside.Kind() == reflect.Slice && e.Kind == unstable.Table:
		return nil, "", d.refuse(last, "[%s] is one of several: write [[%s]]", name, name)
	case inside.Kind() != reflect.Slice && e.Kind == unstable.ArrayTable:
		return nil, "", d.refuse(last, "there is one %s only: write [%s]", name, name)
	case inside.Kind() == reflect.Slice:
		inside, prefix = inside.Elem(), d.element(prefix)
	}
	d.origin[prefix] = d.place(last)
	return inside, prefix + ".", nil
}

// element returns the key of the next element of a list of tables.
func (d *document) element(list string) string {
	n := d.tables[list]
	d.tables[list] = n + 1
	return fmt.Sprintf("%s[%d]", list, n)
}

// keyValue checks one key and its value, and notes in which line the key is.
func (d *document) keyValue(inside reflect.Type, prefix string, e *unstable.Node) error {
	t, key, last, err := d.resolve(inside, prefix, e)
	if err != nil {
		return err
	}
	d.origin[key] = d.place(last)
	if isTable(t) {
		return d.inline(t, key, last, e.Value())
	}
	if remedy := misfit(t, e.Value()); remedy != "" {
		return d.refuse(last, "%s: %s", lastPart(key), remedy)
	}
	return nil
}

// inline checks a value that is an inline table, {key = value}, or a list of inline tables.
func (d *document) inline(t reflect.Type, key string, at, v *unstable.Node) error {
	list := t.Kind() == reflect.Slice
	switch {
	case list && v.Kind == unstable.Array:
		for all := v.Children(); all.Next(); {
			if all.Node().Kind == unstable.Comment {
				continue
			}
			one := d.element(key)
			d.origin[one] = d.place(at)
			if err := d.inline(t.Elem(), one, at, all.Node()); err != nil {
				return err
			}
		}
		return nil
	case !list && v.Kind == unstable.InlineTable:
		for all := v.Children(); all.Next(); {
			if all.Node().Kind != unstable.KeyValue {
				continue
			}
			if err := d.keyValue(t, key+".", all.Node()); err != nil {
				return err
			}
		}
		return nil
	}
	header := "[" + lastPart(key) + "]"
	if list {
		header = "[" + header + "]"
	}
	return d.refuse(at, "%s is a table: write %s in a line of its own, and its keys beneath", lastPart(key), header)
}

// indexes matches the indexes of lists in a key.
var indexes = regexp.MustCompile(`\[\d+\]`)

// resolve looks up a dotted key that stands in a table of type t. prefix is that table's own key.
// It returns the type of the value, the whole key, and the last node of the key.
func (d *document) resolve(t reflect.Type, prefix string, e *unstable.Node) (_ reflect.Type, key string, last *unstable.Node, err error) {
	key = strings.TrimSuffix(prefix, ".")
	for parts := e.Key(); parts.Next(); {
		last = parts.Node()
		name := string(last.Data)
		if t.Kind() == reflect.Slice && isTable(t) { // [export.x] belongs to the last [[export]]
			key = fmt.Sprintf("%s[%d]", key, max(d.tables[key]-1, 0))
			t = t.Elem()
		}
		if key != "" {
			key += "."
		}
		key += name
		var found bool
		if isTable(t) {
			t, found = field(t, name)
		}
		if !found {
			return nil, "", nil, d.refuse(last, "unknown key %q: %s", indexes.ReplaceAllString(key, ""), keyHint(name))
		}
	}
	return t, key, last, nil
}

func (d *document) place(n *unstable.Node) place {
	return place{file: d.file, line: d.parser.Shape(n.Raw).Start.Line}
}

func (d *document) refuse(at *unstable.Node, format string, args ...any) error {
	p := d.place(at)
	return &Error{File: p.file, Line: p.line, Err: fmt.Errorf(format, args...)}
}

// isTable reports whether keys of this type are tables of keys, or lists of tables.
func isTable(t reflect.Type) bool {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// field returns the type of a table's key.
func field(table reflect.Type, key string) (reflect.Type, bool) {
	for i := range table.NumField() {
		if f := table.Field(i); f.Tag.Get("toml") == key {
			return f.Type, true
		}
	}
	return nil, false
}

// usual returns an example of a value for the type.
func usual(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[Duration]():
		return `"30s"`
	case t == reflect.TypeFor[Size]():
		return `"256M"`
	case t == reflect.TypeFor[[]Listen]():
		return `[":2049"]`
	case t == reflect.TypeFor[[]Choice]():
		return `["..."]`
	case t == reflect.TypeFor[*bool]():
		return "true"
	case t.Kind() == reflect.Int:
		return "128"
	}
	return `"..."`
}

// misfit checks that the value v can be decoded to the Go type t. If it cannot, misfit returns an
// error text that says what to write instead; otherwise it returns "".
func misfit(t reflect.Type, v *unstable.Node) string {
	found := shown(v)
	switch {
	case t.Kind() == reflect.Slice:
		return misfitList(t, v)
	case t == reflect.TypeFor[Duration]() && v.Kind == unstable.Integer:
		if n, err := strconv.ParseUint(found, 10, 32); err == nil {
			return noUnit(n).Error()
		}
	case v.Kind == unstable.Integer && (t == reflect.TypeFor[Size]() || t.Kind() == reflect.Int), v.Kind == unstable.Bool && t == reflect.TypeFor[*bool]():
		return ""
	case t == reflect.TypeFor[*bool]():
		return found + ": write true or false, without quotes"
	case t.Kind() == reflect.Int:
		if _, err := strconv.Atoi(string(v.Data)); err == nil {
			return fmt.Sprintf("%s: write the number without quotes: %s", found, v.Data)
		}
		return fmt.Sprintf("%s is not a number: write one such as %s", found, usual(t))
	}
	switch {
	case v.Kind == unstable.String:
		return ""
	case v.Kind == unstable.Array:
		return fmt.Sprintf("a list is found where one string belongs: write %q", strings.Join(words(v), ","))
	case v.Kind == unstable.InlineTable:
		return "a table is found where a string belongs: write " + usual(t)
	case t == reflect.TypeFor[Duration]():
		return found + " is not a duration: write a number with a unit such as " + usual(t)
	}
	return fmt.Sprintf("%s: write it in quotes: %q", found, found)
}

// misfitList is like misfit, for a key that takes a list of strings.
func misfitList(t reflect.Type, v *unstable.Node) string {
	quoted := func(n *unstable.Node) string {
		switch n.Kind {
		case unstable.String:
			return shown(n)
		case unstable.Array, unstable.InlineTable:
			return strings.Trim(usual(t), "[]")
		case unstable.Integer:
			if t == reflect.TypeFor[[]Listen]() {
				return strconv.Quote(":" + shown(n)) // a port
			}
		}
		return strconv.Quote(shown(n))
	}
	if v.Kind != unstable.Array {
		return fmt.Sprintf("%s is found where a list belongs: write [%s]", shown(v), quoted(v))
	}
	for all := v.Children(); all.Next(); {
		if n := all.Node(); n.Kind != unstable.String && n.Kind != unstable.Comment {
			return fmt.Sprintf("%s is found in a list of strings: write %s", shown(n), quoted(n))
		}
	}
	return ""
}

// words returns the elements of a list as text.
func words(list *unstable.Node) []string {
	var out []string
	for all := list.Children(); all.Next(); {
		if all.Node().Kind != unstable.Comment {
			out = append(out, string(all.Node().Data))
		}
	}
	return out
}

// shown returns a value for an error text: as the user wrote it, or "a list" or "a table".
func shown(v *unstable.Node) string {
	switch v.Kind {
	case unstable.String:
		return strconv.Quote(string(v.Data))
	case unstable.Array:
		return "a list"
	case unstable.InlineTable:
		return "a table"
	}
	return string(v.Data)
}

// keyHint returns the advice for an unknown key: a known key with a similar spelling, or else to
// remove the key.
func keyHint(key string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	for i := range settings {
		for k := range strings.SplitSeq(settings[i].key, ".") {
			if plain(k) == plain(key) {
				return fmt.Sprintf("did you mean %q? Otherwise remove it", k)
			}
		}
	}
	return "remove it, or see docs/configuration.md for the keys there are"
}
