package statedir

import "errors"

// A fault is a reason why the daemon does not use a file or a directory, and what to do about it.
type fault struct{ of, problem, remedy string }

func (f *fault) Error() string { return f.of + " " + f.problem + ": " + f.remedy }

// wrong stores an error as the problem of the file.
func (f *File) wrong(err error) {
	if is, ok := errors.AsType[*fault](err); ok {
		f.Problem, f.Remedy = "it "+is.problem, is.remedy
		return
	}
	f.Problem, f.Remedy = err.Error(), "look at the disk, and at the rights of the file"
}
