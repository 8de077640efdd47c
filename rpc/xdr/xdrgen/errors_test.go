package main

import (
	"strings"
	"testing"
)

// The compiler refuses invalid definitions with an error that has the line.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"character", "const A = 1;\nconst B = ?;", `2: character '?' has no meaning`},
		{"comment", "/* const", `1: comment without an end`},
		{"annotation", "/*@bogus*/ const A = 1;", `1: unknown annotation @bogus`},
		{"annotation value", "/*@ddp yes*/ const A = 1;", `1: annotation @ddp: only @go takes a value, and needs one`},
		{"name without value", "/*@go*/ const A = 1;", `1: annotation @go: only @go takes a value, and needs one`},
		{"definition", "constant A = 1;", `1: "constant" where a definition was expected`},
		{"keyword as name", "struct union { int a; };", `1: "union" where a name was expected`},
		{"number", "const A = B;", `1: "B" where a number was expected`},
		{"malformed number", "const A = 0x;", `1: "0x" is not a number`},
		{"end", "struct a {\n int b", `2: "" where ";" was expected`},
		{"type", "struct a { 5 b; };", `1: "5" where a type was expected`},
		{"unknown type", "struct a {\n b c;\n};", `2: type b is not defined`},
		{"unknown argument", "program p { version v {\nvoid q(r) = 1; } = 1; } = 1;", `2: type r is not defined`},
		{"unknown constant", "struct a { opaque b[C]; };", `1: constant C is not defined before its use`},
		{"type twice", "struct a { int b; };\nstruct a { int b; };", `2: type a is defined twice`},
		{"constant twice", "const A = 1;\nenum b { A = 2 };", `2: constant A is defined twice`},
		{"type without a name", "struct a {\n struct { int b; } c; };", `2: "{" where a name was expected`},
		{"void typedef", "typedef void;", `1: typedef of void`},
		{"void discriminant", "union a switch (void) { case 1: void; };", `1: union a is discriminated by neither int, unsigned int, bool nor enum`},
		{"nameless argument", "program p { version v {\nvoid q(struct { int a; }) = 1; } = 1; } = 1;", `2: "{" where a name was expected`},
		{"large enum", "enum a { B = 0x80000000 };", `1: B is not of 32 bits`},
		{"void field", "struct a { int b; void; };", `1: struct a has a void field`},
		{"string without length", "struct a { string b; };", `1: string b is not of variable length`},
		{"string of fixed length", "struct a { string b[4]; };", `1: string b is not of variable length`},
		{"opaque without length", "struct a { opaque b; };", `1: opaque b has no length`},
		{"optional opaque", "struct a { opaque *b; };", `1: optional b needs a typedef`},
		{"empty array", "struct a { int b[0]; };", `1: b has the impossible length 0`},
		{"negative bound", "struct a { int b<-1>; };", `1: b has the impossible length -1`},
		{"large bound", "struct a { int b<0x100000000>; };", `1: b has the impossible length 4294967296`},
		{"ddp on a number", "struct a { /*@ddp*/ int b; };", `1: @ddp on b, which is not an opaque of variable length`},
		{"ddp on fixed length", "struct a { /*@ddp*/ opaque b[4]; };", `1: @ddp on b, which is not an opaque of variable length`},
		{"V1-32, V2-36: ddp on a union", "union u switch (int a) { case 1: opaque b<4>; };\nstruct c { /*@ddp*/ u d; };", `2: @ddp on d, which is not an opaque of variable length`},
		{"external struct", "/*@external*/\nstruct a { int b; };", `2: @external on a, which is not a typedef of an array with a bound`},
		{"external field", "struct a {\n /*@external*/ int b<3>; };", `2: @external on b, which is not a typedef of an array with a bound`},
		{"external without a bound", "/*@external*/\ntypedef int a<>;", `2: @external on a, which is not a typedef of an array with a bound`},
		{"external name", "/*@external*/\ntypedef int a;", `2: @external on a, which is not a typedef of an array with a bound`},
		{"recursion", "struct a { b c; };\nstruct b { a d; };", `2: type a contains itself other than as a linked list`},
		{"tree", "struct a { a *left; a *right; int b; };", `1: type a contains itself other than as a linked list`},
		{"empty list element", "struct a { a *next; };", `1: list element a is empty`},
		{"union without case", "union a switch (int b) { default: void; };", `1: union a has no case`},
		{"two defaults", "union a switch (int b) { case 1: void; default: void;\ndefault: void; };", `2: second default arm`},
		{"case twice", "union a switch (int b) {\ncase 1: void;\ncase 1: int c; };", `3: union a has two arms for 1`},
		{"case of no member", "enum e { F = 1 };\nunion a switch (e b) { case 2: void; };", `2: e has no member 2`},
		{"case of no boolean", "union a switch (bool b) { case 2: void; };", `1: a boolean is never 2`},
		{"discriminant", "union a switch (hyper b) { case 1: void; };", `1: union a is discriminated by neither int, unsigned int, bool nor enum`},
		{"float", "struct a { float b; };", `1: "float" where a type was expected`},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, err := Compile("p", "test.x", []byte(c.text))
			if err == nil {
				t.Fatalf("compiled to\n%s", code)
			}
			if want := "test.x:" + c.want; err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

// Go names are made from the words of XDR names. Initialisms are spelled as is usual in Go.
func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"READ3resok": "Read3ResOK", "wcc_data": "WccData", "NFS3_OK": "NFS3OK",
		"NFS3ERR_NXIO": "NFS3ErrNXIO", "fileid3": "FileID3", "nfs_fh4": "NFSFH4",
		"post_op_attr": "PostOpAttr", "obj_": "Obj", "eir_clientid": "EirClientid",
	} {
		if got := camel(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// FuzzCompile checks that the compiler never panics, and that its output is valid Go.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		"const A = 1;",
		"enum e { F = 1, G = 0x2 };",
		"struct s { opaque a[4]; string b<>; hyper *c; s *next; };",
		"union u switch (bool b) { case TRUE: int c<3>; default: void; };",
		"/* s */ struct s { int a; }; union u switch (int x) { case 1: void; case -1: struct s b; };",
		"program p { version v { void n(void) = 0; int m(int, bool) = 1; } = 2; } = 3;",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := Compile("p", "test.x", []byte(text)); err != nil && strings.Contains(err.Error(), "generated code") {
			t.Errorf("%s\n%v", text, err)
		}
	})
}
