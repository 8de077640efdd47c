//go:build !race

package iwarp

func raceWrite() {}
func raceRead()  {}
