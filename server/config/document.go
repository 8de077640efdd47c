package config

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// A document reads a configuration file into a Config. It notes in which line the file sets each key. Its
// errors say in the user's words which values a key accepts; the errors of the TOML decoder would name
// Go types. It goes on after an error, so that the user sees all errors at once.
type document struct {
	file   string
	parser unstable.Parser
	config *Config
	// tables has the number of tables read so far for each list of tables, such as [[export]].
	tables map[string]int
	faults []error // each is an *Error
}

// readDocument sets the keys of c that the file sets. It reports unknown keys, and values of a wrong kind
// or form. If b is not TOML, whole is false, and what comes after the error is not read.
func readDocument(c *Config, b []byte) (faults []error, whole bool) {
	d := &document{file: c.file, config: c, tables: make(map[string]int)}
	c.origin = make(map[string]Error)
	line, err := checkTOML(b)
	d.parser.Reset(b)
	inside, table := reflect.ValueOf(c).Elem(), ""
	for d.parser.NextExpression() {
		if e := d.parser.Expression(); e.Kind != unstable.KeyValue {
			inside, table = d.header(e)
		} else if inside.IsValid() {
			d.keyValue(inside, table, e)
		}
	}
	// If d has an error in the same line, it says more than that of the TOML decoder, as for a number that is too large.
	if told := func(f error) bool { return f.(*Error).Line == line }; err != nil && !slices.ContainsFunc(d.faults, told) {
		d.faults = append(d.faults, &Error{File: c.file, Line: line, Err: err})
	}
	return d.faults, err == nil
}

// header handles [table], or [[table]], which begins the next element of a list. It returns the
// table and its key. After an error the table is not valid.
func (d *document) header(e *unstable.Node) (inside reflect.Value, table string) {
	inside, table, last, ok := d.resolve(reflect.ValueOf(d.config).Elem(), "", e)
	if !ok {
		return reflect.Value{}, ""
	}
	name, list := lastPart(table), inside.Kind() == reflect.Slice
	switch {
	case !isTable(inside.Type()):
		d.refuse(last, "%s is not a table: write %s = %s", name, name, usual(inside.Type()))
	case list && e.Kind == unstable.Table:
		d.refuse(last, "[%s] is one of several: write [[%s]]", name, name)
	case !list && e.Kind == unstable.ArrayTable:
		d.refuse(last, "there is one %s only: write [%s]", name, name)
	case list:
		inside, table = d.element(inside, table)
		fallthrough
	default:
		d.config.origin[table] = d.place(last)
		return inside, table
	}
	return reflect.Value{}, ""
}

// element appends an element to a list of tables, and returns it and its key.
func (d *document) element(list reflect.Value, key string) (reflect.Value, string) {
	n := d.tables[key]
	d.tables[key] = n + 1
	list.Set(reflect.Append(list, reflect.Zero(list.Type().Elem())))
	return list.Index(n), fmt.Sprintf("%s[%d]", key, n)
}

// keyValue reads one key and its value in a table with the given key.
func (d *document) keyValue(inside reflect.Value, table string, e *unstable.Node) {
	if v, key, last, ok := d.resolve(inside, table, e); ok {
		d.value(v, key, last, e.Value())
	}
}

// value sets v, which has the given key, to the value n, and notes in which line the key is: that of the
// node at. The value of a table is an inline table, {key = value}, or a list of inline tables.
func (d *document) value(v reflect.Value, key string, at, n *unstable.Node) {
	d.config.origin[key] = d.place(at)
	name, list := lastPart(key), v.Kind() == reflect.Slice
	switch {
	case !isTable(v.Type()):
		d.leaf(v, key, at, n)
	case list && n.Kind == unstable.Array:
		for one := range children(n) {
			inner, key := d.element(v, key)
			d.value(inner, key, at, one)
		}
	case list:
		d.refuse(at, "%s is a table: write [[%s]] in a line of its own, and its keys beneath", name, name)
	case n.Kind == unstable.InlineTable:
		for one := range children(n) {
			d.keyValue(v, key, one)
		}
	default:
		d.refuse(at, "%s is a table: write [%s] in a line of its own, and its keys beneath", name, name)
	}
}

// leaf sets a value that is no table. If n does not fit, the key counts as one that the file does not
// set, so that the checks after this one do not report it again.
func (d *document) leaf(v reflect.Value, key string, at, n *unstable.Node) {
	text := misfit(v.Type(), key, n)
	if text == "" {
		words := []string{strings.ReplaceAll(string(n.Data), "_", "")}
		switch n.Kind {
		case unstable.String:
			words[0] = string(n.Data)
		case unstable.Array:
			words = wordsOf(n)
		}
		fresh := reflect.New(v.Type())
		if err := assign(fresh.Interface(), words); err != nil {
			text = err.Error()
		} else {
			v.Set(fresh.Elem())
		}
	}
	if text != "" {
		d.refuse(at, "%s: %s", lastPart(key), text)
		d.config.isWrong(key)
		delete(d.config.origin, key)
	}
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

// resolve looks up the dotted key of e in a table with the given key. It returns the value, the whole
// key, and the last node of the key. If there is no such key, it reports that, and ok is false.
func (d *document) resolve(inside reflect.Value, table string, e *unstable.Node) (v reflect.Value, key string, last *unstable.Node, ok bool) {
	v, key = inside, table
	for parts := e.Key(); parts.Next(); {
		last = parts.Node()
		name := string(last.Data)
		if v.Kind() == reflect.Slice && isTable(v.Type()) { // [export.x] belongs to the last [[export]]
			key = fmt.Sprintf("%s[%d]", key, max(d.tables[key]-1, 0))
			v = reflect.New(v.Type().Elem()).Elem()
		}
		above := key
		key = strings.TrimPrefix(key+"."+name, ".")
		var f reflect.StructField
		var found bool
		if isTable(v.Type()) {
			f, found = field(v.Type(), name)
		}
		if !found {
			d.refuse(last, "unknown key %q: %s", indexes.ReplaceAllString(key, ""), keyHint(indexes.ReplaceAllString(above, ""), name, shown(e.Value())))
			d.config.isWrong(above)
			return v, "", nil, false
		}
		v = v.FieldByIndex(f.Index)
	}
	return v, key, last, true
}

func (d *document) place(n *unstable.Node) Error {
	return Error{File: d.file, Line: d.parser.Shape(n.Raw).Start.Line}
}

func (d *document) refuse(at *unstable.Node, format string, args ...any) {
	e := d.place(at)
	e.Err = fmt.Errorf(format, args...)
	d.faults = append(d.faults, &e)
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
	reflect.TypeFor[*bool](): "true", reflect.TypeFor[bool](): "true", reflect.TypeFor[[]Listen](): `[":2049"]`, reflect.TypeFor[[]string](): `["..."]`,
	reflect.TypeFor[[]int](): "[1]",
}

// usual returns an example of a value for the type.
func usual(t reflect.Type) string { return cmp.Or(examples[t], `"..."`) }

// misfit checks that the value v is of the kind that the key, of Go type t, takes. If it is not, misfit
// returns an error text that says what to write instead; otherwise it returns "". The key accepts what the
// text says to write: see quote.
func misfit(t reflect.Type, key string, v *unstable.Node) string {
	found := shown(v)
	switch {
	case t.Kind() == reflect.Slice:
		return misfitList(t, key, v)
	case t == reflect.TypeFor[Duration]() && v.Kind == unstable.Integer:
		if n, err := strconv.ParseUint(strings.ReplaceAll(found, "_", ""), 10, 32); err == nil {
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
		return quote(key, strings.Join(wordsOf(v), ","), "a list is found where one string belongs: write %q")
	case v.Kind == unstable.InlineTable:
		return "a table is found where a string belongs: write " + usual(t)
	case t == reflect.TypeFor[Duration]():
		return found + " is not a duration: write a number with a unit such as " + usual(t)
	}
	return quote(key, found, found+": write it in quotes: %q")
}

// quote returns the advice to write a word in quotes, if the key accepts the word. Otherwise it returns
// the error that the key has for the word, so that a user who follows an advice needs no second one.
func quote(key, word, advice string) string {
	if err := tried(key, []string{word}); err != nil {
		return err.Error()
	}
	return fmt.Sprintf(advice, word)
}

// tried returns the error that a key has for words.
func tried(key string, words []string) error {
	c := &Config{Exports: make([]Export, 1)}
	var value any
	i := slices.IndexFunc(settings, func(s setting) bool { return s.key == indexes.ReplaceAllString(key, "") })
	if name, ofExport := strings.CutPrefix(settings[i].key, "export."); ofExport {
		at := reflect.ValueOf(&c.Exports[0]).Elem()
		f, _ := field(at.Type(), name)
		value = at.FieldByIndex(f.Index).Addr().Interface()
	} else {
		value = c.field(settings[i].key)
	}
	err := assign(value, words)
	if err == nil && settings[i].check != nil {
		if err = settings[i].check(c); err != nil {
			err = errors.New(strings.TrimPrefix(Cause(err).Error(), lastPart(key)+" = "))
		}
	}
	return err
}

// misfitList is like misfit, for a key that takes a list of strings or numbers.
func misfitList(t reflect.Type, key string, v *unstable.Node) string {
	element, kind, advice := "strings", unstable.String, "%q"
	if t == reflect.TypeFor[[]int]() {
		element, kind, advice = "numbers", unstable.Integer, "%s"
	}
	word := func(n *unstable.Node) string {
		if n.Kind == unstable.Integer && t == reflect.TypeFor[[]Listen]() {
			return ":" + shown(n) // a port
		}
		return string(n.Data)
	}
	switch v.Kind {
	case unstable.Array:
	case unstable.InlineTable:
		return "a table is found where a list belongs: write " + usual(t)
	default:
		return quote(key, word(v), shown(v)+" is found where a list belongs: write ["+advice+"]")
	}
	for n := range children(v) {
		switch n.Kind {
		case kind:
		case unstable.Array, unstable.InlineTable:
			return shown(n) + " is found in a list of " + element + ": write " + strings.Trim(usual(t), "[]")
		default:
			return quote(key, word(n), shown(n)+" is found in a list of "+element+": write "+advice)
		}
	}
	return ""
}

// wordsOf returns the elements of a list as they stand in the file.
func wordsOf(list *unstable.Node) []string {
	words := []string{}
	for n := range children(list) {
		words = append(words, string(n.Data))
	}
	return words
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

func isBool(t reflect.Type) bool { return t.Kind() == reflect.Bool || t == reflect.TypeFor[*bool]() }
