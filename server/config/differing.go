package config

import "reflect"

// Differing returns the keys whose values differ between two checked configurations. It ignores
// exports.
func (c *Config) Differing(from *Config) (keys []string) {
	var compare func(prefix string, a, b reflect.Value)
	compare = func(prefix string, a, b reflect.Value) {
		for i := range a.NumField() {
			f := a.Type().Field(i)
			key := f.Tag.Get("toml")
			switch {
			case key == "" || key == "export":
			case isTable(f.Type):
				compare(prefix+key+".", a.Field(i), b.Field(i))
			case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
				keys = append(keys, prefix+key)
			}
		}
	}
	compare("", reflect.ValueOf(c).Elem(), reflect.ValueOf(from).Elem())
	return keys
}
