package nfs4

// GiveWay makes every compound let other calls run after each of its operations.
func (p *Program) GiveWay() { p.turn = -1 }
