package main

import (
	"strings"
)

// optionalType adds the type for optional data of elem (RFC 4506 §4.19) to the queue, and returns
// its name.
func (e *emitter) optionalType(elem shape) string {
	t := elem.goType()
	name := "Opt" + strings.ToUpper(t[:1]) + t[1:]
	e.later(name, func() {
		e.expand(`
// {{N}} is an optional {{E}}. Value is valid only if Present is true.
type {{N}} struct {
	Present bool `+"`xdr:\"switch case=0\"`"+`
	Value   {{E}} `+"`xdr:\"case=1\"`"+`
}
`, name, t)
		e.emitMethods(name,
			"*v = "+name+"{Present: d.Bool()}\nif v.Present {\n"+elem.decode("v.Value")+"\n}",
			"w.Bool(v.Present)\nif v.Present {\n"+elem.encode("v.Value")+"\n}")
	})
	return name
}
