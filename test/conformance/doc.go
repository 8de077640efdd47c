// Package conformance compares the tests with the standards. docs/conformance*.md list every
// requirement of the protocols below NFS: a number, its source, its content, and either the tests
// that prove it or a marked reason why no test does. This package parses the tables and the code,
// and reports every disagreement:
//
//   - A number has one row. The index, docs/conformance.md, lists the numbers, and each of them
//     has its row.
//   - A row names its source and states the requirement in a sentence.
//   - A row cites tests, or gives a reason with one of the marks (see marks), or both.
//   - A cited test exists in the package named, is not skipped at its beginning, and can fail:
//     its body leads to a call of Error, Fatal and the like.
//   - A cited test carries the row's number: in its doc comment, in a comment or a string of its
//     body, or in the declaration of a table (a variable of the package) that the body names.
//     Helpers do not count: a test names the rule that it proves itself.
//   - A number that the code names anywhere has a row.
//
// A citation is package.Test, where the package is the end of its directory's path, long enough
// to mean one directory: iwarp.TestFaults, iwarp/wire.TestPad. Test is a test or fuzz function of
// a _test.go file, or the function of a suite (rdmatest.exposureForeign): an exported function of
// the package, which a test elsewhere calls, leads to it.
//
// This package judges only form. test/mutants shows that a test fails when its rule is broken.
package conformance
