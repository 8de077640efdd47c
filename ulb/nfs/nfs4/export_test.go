package nfs4

// GiveWay makes every compound let other calls go first after each of its operations.
func (p *Program) GiveWay() { p.turn = -1 }
