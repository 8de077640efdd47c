package main

// emitTypedef writes a type for d, unless xdrgen generates none for d (vanishes). If d is annotated
// @external, it writes only the constants for the sizes.
func (e *emitter) emitTypedef(d *typedefDef) {
	if e.m.vanishes(d) {
		return
	}
	name := goName(&d.header)
	if d.notes.external {
		e.emitSizes(d.name, name)
		return
	}
	s := e.shapeOf(d.decl, "")
	if e.m.isIterator(d.decl) { // shapeOf has queued the iterator type, which has the typedef's name
		return
	}
	e.printf("%s\ntype %s %s\n\n", documentation(name, &d.header, "type"), name, s.goType())
	e.emitMethods(name, s.decode("*v"), s.encode("*v"))
	e.emitSizes(d.name, name)
}

// vanishes reports whether xdrgen generates no Go type for t, because t only renames a scalar, a
// defined type, a list, optional data or an eligible opaque.
func (m *model) vanishes(t *typedefDef) bool {
	if t.decl.kind == declPlain {
		return t.decl.spec.builtin != builtinQuadruple
	}
	return t.decl.kind == declOptional || t.decl.notes.ddp
}
