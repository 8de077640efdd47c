//go:build !race

package iwarp

const raceEnabled = false

func raceWrite() {}
func raceRead()  {}
