package config

import (
	"fmt"
	"slices"
	"strings"
)

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
	near := Nearest(key, optionNames())
	if near == "" {
		return ""
	}
	option := near
	if findOption(near).takes != "" {
		option += "=" + strings.Trim(strings.ReplaceAll(value, `"`, ""), "[]")
		if value == "a list" || value == "a table" {
			option = near + "=..."
		}
	}
	return fmt.Sprintf("this is an option: write options = %q, with the other options of the export, separated by commas", option)
}
