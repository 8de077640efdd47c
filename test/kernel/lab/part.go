package lab

import "fmt"

// A Part is a part of the lab that Setup sets up once for each machine: a Kernel, a Systemd or
// the Images.
type Part interface {
	// Ready reports whether the part has been set up with the lab's present ingredients (see
	// artifact).
	Ready() bool

	build() error
	effort() string // how long build takes, for people
}

// Parts has all parts of the lab.
func Parts() []Part { return []Part{UserMode, UserMode7_2, Stock6_1, Stock6_12, Systemd254, Images{}} }

// ParsePart returns the part with that name.
func ParsePart(name string) (Part, error) {
	for _, part := range Parts() {
		if fmt.Sprint(part) == name {
			return part, nil
		}
	}
	return nil, fmt.Errorf("the lab has no part %q: it has %v", name, Parts())
}
