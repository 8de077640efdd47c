package main

// program reads the rest of a program definition after its name (RFC 5531 §12.2).
func (p *parser) program(h header) *programDef {
	d := &programDef{header: h}
	p.expect("{")
	for !p.accept("}") {
		d.versions = append(d.versions, p.version())
	}
	p.expect("=")
	d.number = p.number()
	p.expect(";")
	return d
}

func (p *parser) version() *versionDef {
	d := &versionDef{header: startHeader(p.peek())}
	p.expect("version")
	d.name = p.name().text
	p.expect("{")
	for !p.accept("}") {
		d.procedures = append(d.procedures, p.procedure())
	}
	p.expect("=")
	d.number = p.number()
	p.expect(";")
	return d
}

func (p *parser) procedure() *procedureDef {
	d := &procedureDef{header: startHeader(p.peek())}
	inline := len(p.spec.definitions)
	d.result = p.typeSpec()
	d.name = p.name().text
	p.expect("(")
	for {
		if s := p.typeSpec(); s.builtin != builtinVoid {
			d.args = append(d.args, s)
		}
		if p.accept(")") {
			break
		}
		p.expect(",")
	}
	if len(p.spec.definitions) > inline {
		p.fail(d.line, "procedure %s has a type without a name", d.name)
	}
	p.expect("=")
	d.number = p.number()
	p.expect(";")
	return d
}
