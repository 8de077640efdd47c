// Command xdrgen compiles definitions in the XDR language (RFC 4506 §6, with the program
// definitions of RFC 5531 §12) to Go types that decode in place and encode into an xdr.Writer. Only
// arrays with a bound, which is a largest number of elements, allocate memory.
//
//	xdrgen -package P -o FILE DEFINITION.x
//
// Comments of the form /*@name value*/ before a definition, a declaration or a procedure are
// annotations; the type notes lists them. Any other comment of the form /* text */ becomes the
// documentation of the definition or declaration after it, unless an empty line follows the
// comment.
//
// Types map to Go as follows:
//
//   - Scalars are Go scalars. A typedef that only renames a scalar or another type gives no Go
//     type. Opaque items and strings are []byte that alias the stream.
//   - A union is a struct with its discriminant and a field for each arm. Optional data is a struct
//     {Present, Value}. An array of at most one element is the same, because it has the same
//     encoding (RFC 4506 §4.19).
//   - A linked list (a struct that ends in optional data of itself) and an array without a bound
//     are iterators over the stream. Decode checks all elements once. The elements are encoded one
//     by one.
//   - An array with a bound is a slice, and the only thing that allocates: after its count was
//     checked against both the bound and the stream.
//   - If a typedef of an array with a bound is annotated @external, its Go type, with Decode and
//     Encode, is written by hand in another file. This is for types for which these rules give slow
//     or clumsy code. The definition gives only the name and the sizes. The bound is the largest
//     number of elements that the type encodes; it may decode more.
//
// Struct tags have the facts that reflection (rpc/xdr/xdrtest) cannot see in Go types. A union's
// discriminant has the tag xdr:"switch", with the values of its void arms. The other arms have
// xdr:"case=0,1" or xdr:"default". A counted item with a bound has xdr:"max=64".
//
// If the size of a type T is bounded, there is a constant TMaxSize. If its size without
// DDP-eligible content is bounded and smaller, there is a constant TMaxReducedSize. A type that
// contains exactly one list or iterator also has EncodeHead and EncodeTail, which encode the parts
// before and after the list.
//
// These are not supported: recursive types other than linked lists, types without a name (an enum,
// struct or union that is defined inside a declaration), floating-point numbers, and quadruples.
// xdrgen does not check for two Go names that are the same, because the Go compiler does.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	pkg := flag.String("package", "", "name of the Go package")
	out := flag.String("o", "", "file to write")
	flag.Parse()
	if *pkg == "" || *out == "" || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: xdrgen -package P -o FILE DEFINITION.x")
		os.Exit(2)
	}
	if err := compileFile(*pkg, flag.Arg(0), *out); err != nil {
		fmt.Fprintln(os.Stderr, "xdrgen:", err)
		os.Exit(1)
	}
}

func compileFile(pkg, in, out string) error {
	text, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	code, err := Compile(pkg, filepath.Base(in), text)
	if err != nil {
		return err
	}
	return os.WriteFile(out, code, 0o644)
}

// A fault is an error in the definitions. fail panics with it; Compile recovers it.
type fault struct {
	line int
	text string
}

func fail(line int, format string, a ...any) { panic(&fault{line, fmt.Sprintf(format, a...)}) }

// Compile compiles the definitions in text to the source of a Go package. name is the file name for
// error messages.
func Compile(pkg, name string, text []byte) (code []byte, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *fault:
			code, err = nil, fmt.Errorf("%s:%d: %s", name, r.line, r.text)
		default:
			panic(r)
		}
	}()
	return emit(pkg, name, resolve(parse(tokenize(text))))
}
