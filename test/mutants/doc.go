// Mutants breaks rules in the code on purpose, one at a time, and checks that a test fails: a
// test that passes although its rule is broken proves nothing.
//
//	go run ./test/mutants                    all of them
//	go run ./test/mutants -list              what there is
//	go run ./test/mutants -run 'V1-54|mem'   those whose description matches
//	go run ./test/mutants -draw 50 -seed 7   50 changes of lines at random
//	go run ./test/mutants -lines 'rpc/admit.go:2..'    each change of these lines
//
// A mutant of the lists breaks the rule in one numbered row of docs/conformance*.md. It replaces text
// within one declaration, and names the tests that must then fail. The work tree stays unchanged: go
// test gets the changed file by -overlay, and so does each go build that a test runs. First the
// program runs the tests without the mutant; they must pass. A mutant has one of these outcomes:
//
//   - killed: a test failed with a message. This is the goal.
//   - panicked: the tests ended with a panic or a race report. They noticed the mutant, but without
//     a message. The mutant counts as killed, and the program lists it, because its tests need a
//     message.
//   - timed out: only the time limit ended the tests. The mutant does not count as killed, because
//     a wait in a test has no time limit (see test/await).
//   - survived: the tests passed. They do not test the rule.
//   - broken: the mutant does not apply or does not compile, or its tests do not run, or they fail
//     without the mutant.
//
// The program exits with 1 unless all mutants are killed. A test of this package checks that each
// mutant still applies to the code.
//
// To add a mutant, add it to the table for its part of the code (list_*.go): the row's number and
// rule, the package and the declaration, the shortest text that occurs once in the declaration,
// the replacement, and the tests.
package main
