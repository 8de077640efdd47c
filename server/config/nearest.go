package config

import (
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the one of words that the user probably meant by word: one that differs in the case of
// letters, in '_' or '-', or in some letters, or one that begins like it. It returns "" if there is none.
func Nearest(word string, words []string) (nearest string) {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	least := max(1, len(word)/3) + 1
	for _, w := range words {
		a, b := plain(word), plain(w)
		d := distance(a, b)
		if short, long := min(len(a), len(b)), max(len(a), len(b)); short >= 4 && d == long-short && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
			d = min(d, 1)
		}
		if d < least {
			nearest, least = w, d
		}
	}
	return nearest
}

// didYouMean returns the question whether the user meant one of words, or "".
func didYouMean(word string, words []string) string {
	if n := Nearest(word, words); n != "" {
		return fmt.Sprintf("did you mean %q? Otherwise ", n)
	}
	return ""
}

// distance returns how many letters have to be inserted, removed, replaced or exchanged with their
// neighbour to make b of a.
func distance(a, b string) int {
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		now[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			now[j+1] = min(replaced, last[j+1]+1, now[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				now[j+1] = min(now[j+1], before[j-1]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}

// tableName returns how a table is written in the file; table is "" for the top level.
func tableName(table string) string {
	switch table {
	case "":
		return "the top level"
	case "export":
		return "[[export]]"
	}
	return "[" + table + "]"
}

// keyHint returns the advice for an unknown key in a table, which is "" for the top level. It never says
// to remove the key, because the key may be meant to restrict what clients may do. value is what the file
// sets the key to.
func keyHint(table, key, value string) string {
	var here, tables []string
	home := make(map[string]string) // the table of each key
	for i := range settings {
		in, name, dotted := strings.Cut(settings[i].key, ".")
		if !dotted {
			in, name = "", settings[i].key
		}
		if in == table {
			here = append(here, name)
		}
		if _, found := home[name]; !found {
			home[name] = in
		}
		if dotted && !slices.Contains(tables, in) {
			tables = append(tables, in)
		}
	}
	if table == "" {
		here = append(here, tables...)
	}
	if near := Nearest(key, here); near != "" {
		return fmt.Sprintf("did you mean %q? The keys of %s are %s", near, tableName(table), strings.Join(here, ", "))
	}
	if in, found := home[key]; found && in == "" {
		return "this key belongs above the first [table] of the file: move the line there"
	} else if found {
		return fmt.Sprintf("this key belongs to %s: move the line below %s", tableName(in), tableName(in))
	}
	if hint := optionHint(key, value); table == "export" && hint != "" {
		return hint
	}
	return fmt.Sprintf("the keys of %s are %s", tableName(table), strings.Join(here, ", "))
}

// optionHint returns the advice for a key that is an option of exports, or "".
func optionHint(key, value string) string {
	var names []string
	for i := range exportOptions {
		names = append(names, exportOptions[i].name)
	}
	near := Nearest(key, names)
	if near == "" {
		return ""
	}
	option := near
	if exportOptions[slices.Index(names, near)].takes != "" {
		option += "=" + strings.Trim(strings.ReplaceAll(value, `"`, ""), "[]")
		if value == "a list" || value == "a table" {
			option = near + "=..."
		}
	}
	return fmt.Sprintf("this is an option: write options = %q, with the other options of the export, separated by commas", option)
}
