// Package conformance holds the tests to the standards. docs/conformance*.md
// state every requirement of the protocols below NFS: a number, where it comes
// from, what it says, and either the tests that prove it or a marked reason why
// no test does. This package parses the tables and the code, and reports
// whatever no longer fits together:
//
//   - A number has one row. The index, docs/conformance.md, says which numbers
//     there are, and each of them has its row.
//   - A row names its source and says in a sentence what is required.
//   - A row cites tests, or gives a reason with one of the marks (see marks), or
//     both.
//   - A cited test exists in the package named, is not skipped at its begin, and
//     can fail: from its body a call of Error, Fatal and the like is reached.
//   - A cited test carries the row's number: in its doc comment, in a comment or
//     a string of its body, or in the declaration of a table (a variable of the
//     package) that the body names. Helpers do not count: what proves a rule says
//     so itself.
//   - A number that the code names anywhere has a row.
//
// A citation is package.Test, where the package is the end of its directory's
// path, long enough to mean one directory: iwarp.TestFaults, iwarp/wire.TestPad.
// Test is a test or fuzz function of a _test.go file, or the function of a suite
// (rdmatest.exposureForeign): one that an exported function of the package leads
// to, which a test elsewhere calls.
//
// What is judged here is form. That a test fails when its rule is broken is shown
// by test/mutants.
package conformance
