// Command xdrgen compiles definitions in the XDR language (RFC 4506 §6, with
// the program definitions of RFC 5531 §12) to Go types that decode in place
// and encode into an xdr.Writer, without allocation wherever the definition
// permits.
//
//	xdrgen -package P -o FILE DEFINITION.x
//
// Comments of the form /*@name value*/ before a definition, a declaration or a procedure
// are annotations; notes.go lists them. Other comments become the documentation of the
// definition or declaration after them.
//
// Types map to Go as follows:
//
//   - Scalars are Go scalars. Typedefs that only rename a scalar or another type
//     vanish. Opaque items and strings are []byte that alias the stream.
//   - A union is a struct with its discriminant and a field for each arm.
//     Optional data is a struct {Present, Value}, and so is an array of at most
//     one element, which is the same on the wire (RFC 4506 §4.19).
//   - A linked list (a struct that ends in optional data of itself) and an
//     array without a bound are iterators over the stream, checked once when
//     they are decoded; they are encoded element by element.
//   - An array with a bound is a slice, and the only thing that allocates:
//     after its count was checked against both the bound and the stream.
//   - A typedef of an array with a bound that is annotated @external has its Go type,
//     with Decode and Encode, in a file written by hand, for what these rules would
//     make slow or clumsy. The definition gives its name and its sizes: the bound is
//     what the type encodes at most, and it may decode more.
//
// Struct tags tell reflection (rpc/xdr/xdrtest) what Go types do not: a union's
// discriminant is tagged xdr:"switch", with the values of its void arms, its
// other arms xdr:"case=0,1" or xdr:"default", and a counted item with a bound
// xdr:"max=64".
//
// A type T with a largest encoding has a constant TMaxSize. If there is a largest
// encoding only without the DDP-eligible content, the constant is TMaxReducedSize. A type
// with one list or iterator in it can be encoded in two halves around that, by EncodeHead
// and EncodeTail.
//
// It does not compile recursive types other than linked lists.
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

// Compile compiles the definitions in text to the source of a Go package. name is the
// file name for messages.
func Compile(pkg, name string, text []byte) ([]byte, error) {
	spec, err := parse(name, text)
	if err != nil {
		return nil, err
	}
	model, err := resolve(spec)
	if err != nil {
		return nil, err
	}
	return emit(pkg, name, model)
}
