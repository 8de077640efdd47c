package main

import "fmt"

// emitProgram writes the numbers of a program, its version and its procedures. All names begin with
// the @go annotation of the program, if there is one. If the program has several versions, the
// names contain the version's number.
func (e *emitter) emitProgram(d *programDef) {
	prefix := d.notes.goName
	e.printf("// %sProgram is the number of the RPC program %s.\nconst %sProgram = %d\n\n",
		prefix, d.name, prefix, d.number.number)
	for _, v := range d.versions {
		suffix := ""
		if len(d.versions) > 1 {
			suffix = fmt.Sprint(v.number.number)
		}
		e.printf("// %sVersion%s is the number of %s.\nconst %sVersion%s = %d\n\n",
			prefix, suffix, v.name, prefix, suffix, v.number.number)
		e.emitProcedures(v, prefix, suffix)
	}
}

func (e *emitter) emitProcedures(v *versionDef, prefix, suffix string) {
	t := prefix + "Procedure" + suffix
	if suffix != "" {
		prefix += "V" + suffix
	}
	e.printf("// %s is a procedure of %s.\ntype %s uint32\n\n", t, v.name, t)
	e.printf("// Procedures of %s, with their arguments and results.\nconst (\n", v.name)
	for _, c := range v.procedures {
		e.printf("%s %s = %d // %s\n", procedureName(prefix, &c.header), t, c.number.number, e.signature(c))
	}
	e.printf(")\n\nvar names%s = map[%s]string{\n", t, t)
	for _, c := range v.procedures {
		e.printf("%s: %q,\n", procedureName(prefix, &c.header), c.name)
	}
	e.printf("}\n\n// String returns the name that the definition gives p.\nfunc (p %s) String() string {\n"+
		"if s, ok := names%s[p]; ok {\nreturn s\n}\nreturn \"procedure \" + strconv.Itoa(int(p))\n}\n\n", t, t)
}

// signature returns the Go types of a procedure's arguments and result, for its comment.
func (e *emitter) signature(c *procedureDef) string {
	name := func(s typeSpec) string {
		if s.builtin == builtinVoid {
			return "nothing"
		}
		return e.shapeOfSpec(s).goType
	}
	args := ""
	for _, s := range c.args {
		if args != "" {
			args += ", "
		}
		args += name(s)
	}
	if args == "" {
		args = "nothing"
	}
	return args + ": " + name(c.result)
}
