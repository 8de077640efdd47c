package config

import (
	"cmp"
	"encoding"
	"fmt"
	"iter"
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
	origin map[string]Error
	// tables has the number of tables read so far for each list of tables, such as [[export]].
	tables map[string]int
}

// readDocument returns the place of each key that the file sets. It rejects unknown keys and
// values of a wrong kind. The decoder reports text that is not TOML.
func readDocument(file string, b []byte) (map[string]Error, error) {
	d := &document{file: file, origin: make(map[string]Error), tables: make(map[string]int)}
	d.parser.Reset(b)
	inside, table := reflect.TypeFor[Config](), ""
	for d.parser.NextExpression() {
		e := d.parser.Expression()
		var err error
		if e.Kind == unstable.KeyValue {
			err = d.keyValue(inside, table, e)
		} else {
			inside, table, err = d.header(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return d.origin, nil
}

// header handles [table], or [[table]], which begins the next element of a list. It returns the
// table's type and key.
func (d *document) header(e *unstable.Node) (inside reflect.Type, table string, err error) {
	inside, table, last, err := d.resolve(reflect.TypeFor[Config](), "", e)
	if err != nil {
		return nil, "", err
	}
	name, list := lastPart(table), inside.Kind() == reflect.Slice
	switch {
	case !isTable(inside):
		return nil, "", d.refuse(last, "%s is not a table: write %s = %s", name, name, usual(inside))
	case list && e.Kind == unstable.Table:
		return nil, "", d.refuse(last, "[%s] is one of several: write [[%s]]", name, name)
	case !list && e.Kind == unstable.ArrayTable:
		return nil, "", d.refuse(last, "there is one %s only: write [%s]", name, name)
	case list:
		inside, table = inside.Elem(), d.element(table)
	}
	d.origin[table] = d.place(last)
	return inside, table, nil
}

// element returns the key of the next element of a list of tables.
func (d *document) element(list string) string {
	n := d.tables[list]
	d.tables[list] = n + 1
	return fmt.Sprintf("%s[%d]", list, n)
}

// keyValue checks one key and its value in a table with the given type and key.
func (d *document) keyValue(inside reflect.Type, table string, e *unstable.Node) error {
	t, key, last, err := d.resolve(inside, table, e)
	if err != nil {
		return err
	}
	return d.value(t, key, last, e.Value())
}

// value checks the value v of a key, and notes in which line the key is: that of the node at. The
// value of a table is an inline table, {key = value}, or a list of inline tables.
func (d *document) value(t reflect.Type, key string, at, v *unstable.Node) error {
	d.origin[key] = d.place(at)
	name, list := lastPart(key), t.Kind() == reflect.Slice
	switch {
	case !isTable(t):
		if remedy := misfit(t, v); remedy != "" {
			return d.refuse(at, "%s: %s", name, remedy)
		}
	case list && v.Kind == unstable.Array:
		for n := range children(v) {
			if err := d.value(t.Elem(), d.element(key), at, n); err != nil {
				return err
			}
		}
	case list:
		return d.refuse(at, "%s is a table: write [[%s]] in a line of its own, and its keys beneath", name, name)
	case v.Kind == unstable.InlineTable:
		for n := range children(v) {
			if err := d.keyValue(t, key, n); err != nil {
				return err
			}
		}
	default:
		return d.refuse(at, "%s is a table: write [%s] in a line of its own, and its keys beneath", name, name)
	}
	return nil
}

// children returns the elements of a list, or the keys and values of an inline table.
func children(v *unstable.Node) iter.Seq[*unstable.Node] {
	return func(yield func(*unstable.Node) bool) {
		for all := v.Children(); all.Next(); {
			if n := all.Node(); n.Kind != unstable.Comment && !yield(n) {
				return
			}
		}
	}
}

// indexes matches the indexes of lists in a key.
var indexes = regexp.MustCompile(`\[\d+\]`)

// resolve looks up the dotted key of e in a table with the given type and key. It returns the type of
// the value, the whole key, and the last node of the key.
func (d *document) resolve(t reflect.Type, table string, e *unstable.Node) (_ reflect.Type, key string, last *unstable.Node, err error) {
	key = table
	for parts := e.Key(); parts.Next(); {
		last = parts.Node()
		name := string(last.Data)
		if t.Kind() == reflect.Slice && isTable(t) { // [export.x] belongs to the last [[export]]
			key = fmt.Sprintf("%s[%d]", key, max(d.tables[key]-1, 0))
			t = t.Elem()
		}
		key = strings.TrimPrefix(key+"."+name, ".")
		var f reflect.StructField
		var found bool
		if isTable(t) {
			f, found = field(t, name)
		}
		if !found {
			return nil, "", nil, d.refuse(last, "unknown key %q: %s", indexes.ReplaceAllString(key, ""), keyHint(name))
		}
		t = f.Type
	}
	return t, key, last, nil
}

func (d *document) place(n *unstable.Node) Error {
	return Error{File: d.file, Line: d.parser.Shape(n.Raw).Start.Line}
}

func (d *document) refuse(at *unstable.Node, format string, args ...any) error {
	e := d.place(at)
	e.Err = fmt.Errorf(format, args...)
	return &e
}

// isTable reports whether keys of this type are tables of keys, or lists of tables.
func isTable(t reflect.Type) bool {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// field returns the field of a table's key.
func field(table reflect.Type, key string) (reflect.StructField, bool) {
	for i := range table.NumField() {
		if f := table.Field(i); f.Tag.Get("toml") == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// examples has an example of a value for each type that a key can have, except strings.
var examples = map[reflect.Type]string{
	reflect.TypeFor[Duration](): `"30s"`, reflect.TypeFor[Size](): `"256M"`, reflect.TypeFor[int](): "128",
	reflect.TypeFor[*bool](): "true", reflect.TypeFor[[]Listen](): `[":2049"]`, reflect.TypeFor[[]string](): `["..."]`,
}

// usual returns an example of a value for the type.
func usual(t reflect.Type) string { return cmp.Or(examples[t], `"..."`) }

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
	case v.Kind == unstable.Integer && (t == reflect.TypeFor[Size]() || t.Kind() == reflect.Int), v.Kind == unstable.Bool && isBool(t):
		return ""
	case isBool(t):
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
		var words []string
		for n := range children(v) {
			words = append(words, string(n.Data))
		}
		return fmt.Sprintf("a list is found where one string belongs: write %q", strings.Join(words, ","))
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
	for n := range children(v) {
		if n.Kind != unstable.String {
			return fmt.Sprintf("%s is found in a list of strings: write %s", shown(n), quoted(n))
		}
	}
	return ""
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

func isBool(t reflect.Type) bool { return t.Kind() == reflect.Bool || t == reflect.TypeFor[*bool]() }
