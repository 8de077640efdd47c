package rpc

import "fmt"

// A table lists the programs that the Server serves. It is immutable: Register and SetFallback
// replace it.
type table struct {
	numbers  []*numberRow
	fallback Fallback // nil if there is none
}

// numberRow is one program number and its versions, each served by one Program.
type numberRow struct {
	number    uint32
	low, high uint32
	versions  []*versionRow
}

type versionRow struct {
	program Program
	number  uint32
	rows    []procedureRow
}

type procedureRow struct {
	*Procedure
	counts counts
}

// maxVersions bounds the number of versions of one program.
const maxVersions = 64

// Register serves p from now on. It panics if a version of the program is already registered, or
// if p reports invalid versions.
func (s *Server) Register(p Program) {
	row := newNumberRow(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.table.Load()
	now := &table{fallback: old.fallback}
	for _, n := range old.numbers {
		if n.number == row.number {
			row = n.join(row)
		} else {
			now.numbers = append(now.numbers, n)
		}
	}
	now.numbers = append(now.numbers, row)
	s.table.Store(now)
}

// SetFallback makes f serve the calls to unregistered programs from now on.
func (s *Server) SetFallback(f Fallback) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.Store(&table{numbers: s.table.Load().numbers, fallback: f})
}

func newNumberRow(p Program) *numberRow {
	row := &numberRow{number: p.Number()}
	row.low, row.high = p.Versions()
	if row.high < row.low || row.high-row.low >= maxVersions {
		panic(fmt.Sprintf("rpc: program %d serves versions %d to %d", row.number, row.low, row.high))
	}
	for v := row.low; ; v++ {
		if b := p.Binding(v); b != nil {
			vr := &versionRow{program: p, number: v, rows: make([]procedureRow, len(b.Procedures))}
			for i := range b.Procedures {
				vr.rows[i].Procedure = &b.Procedures[i]
			}
			row.versions = append(row.versions, vr)
		}
		if v == row.high {
			return row
		}
	}
}

// join merges two rows of the same program number.
func (n *numberRow) join(other *numberRow) *numberRow {
	both := &numberRow{number: n.number, low: min(n.low, other.low), high: max(n.high, other.high)}
	both.versions = append(both.versions, n.versions...)
	for _, v := range other.versions {
		if n.find(v.number) != nil {
			panic(fmt.Sprintf("rpc: version %d of program %d is registered already", v.number, n.number))
		}
		both.versions = append(both.versions, v)
	}
	return both
}

func (t *table) find(number uint32) *numberRow {
	for _, n := range t.numbers {
		if n.number == number {
			return n
		}
	}
	return nil
}

func (n *numberRow) find(version uint32) *versionRow {
	for _, v := range n.versions {
		if v.number == version {
			return v
		}
	}
	return nil
}

// find returns the procedure's row, or nil if there is no such procedure.
func (v *versionRow) find(procedure uint32) *procedureRow {
	if uint64(procedure) >= uint64(len(v.rows)) || v.rows[procedure].Name == "" {
		return nil
	}
	return &v.rows[procedure]
}
