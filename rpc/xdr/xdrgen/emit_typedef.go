package main

// emitTypedef writes a type for d, unless it only renames: scalars keep their
// Go type, and another name for a defined type is an alias.
func (e *emitter) emitTypedef(d *typedefDef) {
	name := goName(&d.header)
	s := e.shapeOf(d.decl, "")
	if _, ok := s.(scalar); ok {
		return
	}
	if e.m.isIterator(d.decl) { // named after the typedef or its element
		return
	}
	if e.vanishes(d) {
		e.printf("%s\ntype %s = %s\n\n", documentation(name, &d.header, "type"), name, s.goType())
		return
	}
	e.printf("%s\ntype %s %s\n\n", documentation(name, &d.header, "type"), name, s.goType())
	e.emitMethods(name, s.decode("*v"), s.encode("*v"))
	e.emitSizes(d.name, name)
}
