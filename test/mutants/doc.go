// Mutants breaks rules in the code, one after the other, and shows that the tests
// notice: a test that passes with its rule broken proves nothing.
//
//	go run ./test/mutants                    all of them
//	go run ./test/mutants -list              what there is
//	go run ./test/mutants -run 'V1-54|mem'   those whose description matches
//
// A mutant breaks one numbered row of docs/conformance*.md. It is a replacement of text
// within one declaration, and names the tests that must fail with it. The work tree is
// not touched: go test gets the changed file by -overlay, and so does each go build that a
// test runs. First the tests run without the mutant, and must pass.
// What comes of a mutant:
//
//   - killed: a test failed, and said how. That is what is wanted.
//   - panicked: the tests ended by a panic or a race report. The rule is noticed,
//     though without words: such a mutant is killed, and listed, so that a test with
//     a message may take its place.
//   - timed out: only the time limit ended the tests. Not killed: a wait in a test
//     lacks its bound (see test/await).
//   - survived: the tests passed. The rule is not tested.
//   - broken: the mutant does not apply, does not compile, or its tests do not run
//     or fail without it.
//
// The program exits with 1 unless all are killed. Whether each applies is a test of
// this package, so that the list does not rot between runs.
//
// To add one, put it into the table of its room (list_*.go): the row's number and rule, the
// package and the declaration, the shortest text that occurs once in the declaration, the
// replacement, and the tests.
package main
