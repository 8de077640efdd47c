// Package conformance checks that the tests cover the standards. docs/conformance*.md list every
// requirement of the protocols below NFS, and of an extension of NFSv4.2: a number, its source, its
// content, and either the tests that prove it or a marked reason why no test does. This package parses
// the tables and the code, and reports every disagreement:
//
//   - Each number has exactly one row. The index, docs/conformance.md, lists all numbers, and each
//     of them has a row.
//   - A row has a source, and a sentence with the requirement.
//   - A row cites tests, or gives a reason with one of the marks (see marks), or both.
//   - A cited test exists in the package named, does not begin with a skip, and can fail: its body
//     leads to a call of Error, Fatal or the like.
//   - A cited test contains the row's number: in its doc comment, in a comment or a string of its
//     body, or in the declaration of a table (a variable of the package) that the body uses. The
//     number in a helper function does not count, because each test must name its own rule.
//   - Each number in the code has a row.
//
// A citation is package.Test. The package is the end of its directory's path, long enough to
// identify one directory: iwarp.TestFaults, iwarp/wire.TestPad. Test is a test or fuzz function
// in a _test.go file, or a function of a test suite (rdmatest.exposureForeign). A function
// belongs to a suite if an exported function of its package leads to it, and a test in another
// package calls that exported function.
//
// This package checks only the form. test/mutants shows that a test fails when its rule is
// broken.
package conformance
