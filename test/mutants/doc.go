// Mutants breaks rules in the code, one after the other, and shows that the tests
// notice: a test that passes with its rule broken proves nothing.
//
//	go run ./test/mutants                    all of them
//	go run ./test/mutants -list              what there is
//	go run ./test/mutants -run 'V1-54|mem'   those whose description matches
//
// A mutant breaks one numbered row of docs/conformance*.md. It replaces text within one
// declaration, and names the tests that must then fail. The work tree stays unchanged: go test
// gets the changed file by -overlay, and so does each go build that a test runs. First the tests
// run without the mutant, and must pass. The outcomes of a mutant:
//
//   - killed: a test failed, with a message. This is the goal.
//   - panicked: the tests ended by a panic or a race report. They noticed the mutant, but without
//     a message: the mutant counts as killed, and is listed, so that a test with a message can be
//     written.
//   - timed out: only the time limit ended the tests. This does not count as killed: a wait in a
//     test lacks its bound (see test/await).
//   - survived: the tests passed. The rule is not tested.
//   - broken: the mutant does not apply, does not compile, or its tests do not run or fail
//     without it.
//
// The program exits with 1 unless all are killed. A test of this package checks that each mutant
// applies, so that the list stays up to date between runs.
//
// To add one, put it into the table of its room (list_*.go): the row's number and rule, the
// package and the declaration, the shortest text that occurs once in the declaration, the
// replacement, and the tests.
package main
