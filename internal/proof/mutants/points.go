package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// point is one place in the code, and one thing that is changed there.
type point struct {
	id            int
	source        *source
	file          *file
	line          int
	function      string // or the constant, of a text of SQL
	kind          string
	before, after string
	key           string // names it as long as its code stays; lines may move

	dropped bool // it does not compile
}

// site is a place in the text that is written otherwise for the sake of some points.
type site struct {
	points []*point
	edits  func(points []*point) []edit // given those that are not dropped
}

// edit replaces a range of a file, or inserts around one.
type edit struct {
	from, to      int
	text          string // replaces the range
	open, closing string // are put around it, if text is empty
	seq           int    // of two around the same range the lower is outside
}

// text is a constant or variable of a package, of SQL that is mutated.
type text struct {
	group  int // the id with which its use is noted
	points []*point
	uses   []string // other texts
}

// board is all that is mutated.
type board struct {
	fset   *token.FileSet
	points []*point
	texts  map[string]*text // by package and name
	sites  map[*file][]*site
	seq    int
	last   int // the last id given out
}

// find lists the points of some packages, and how their code is written with a switch at each.
func find(fset *token.FileSet, sources []*source) *board {
	b := &board{fset: fset, texts: map[string]*text{}, sites: map[*file][]*site{}}
	for _, s := range sources {
		for _, f := range s.files {
			b.findTexts(s, f)
		}
	}
	b.spread()
	for _, s := range sources {
		for _, f := range s.files {
			b.findCode(s, f)
		}
	}
	b.name()
	return b
}

// name gives each point its key.
func (b *board) name() {
	slices.SortStableFunc(b.points, func(x, y *point) int {
		return cmp.Or(cmp.Compare(x.source.path, y.source.path), cmp.Compare(x.file.path, y.file.path), cmp.Compare(x.line, y.line))
	})
	seen := map[string]int{}
	for _, p := range b.points {
		p.key = fmt.Sprintf("%s %s: %s: %s -> %s", p.source.name, p.function, p.kind, clip(p.before), clip(p.after))
		if seen[p.key]++; seen[p.key] > 1 {
			p.key += fmt.Sprintf(" #%d", seen[p.key])
		}
	}
}

func clip(s string) string {
	if r := []rune(s); len(r) > 90 {
		return string(r[:60]) + " … " + string(r[len(r)-27:])
	}
	return s
}

func (b *board) next() int {
	b.last++
	return b.last
}

// findTexts finds texts of SQL outside functions, and what they are made of.
func (b *board) findTexts(s *source, f *file) {
	for _, d := range f.ast.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST && g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			if len(v.Names) != len(v.Values) {
				continue
			}
			for i, name := range v.Names {
				if !isString(s.info.Defs[name].Type()) {
					continue
				}
				w := &walk{board: b, source: s, file: f, function: name.Name, outside: &text{}}
				w.expr(v.Values[i])
				b.texts[s.path+"."+name.Name] = w.outside
			}
		}
	}
}

func isString(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsString != 0
}

// spread keeps only the texts that are mutated, themselves or in a part. Each has the points of its parts, too.
func (b *board) spread() {
	for grown := true; grown; {
		grown = false
		for _, t := range b.texts {
			for _, use := range t.uses {
				for _, p := range b.pointsOf(use) {
					if !slices.Contains(t.points, p) {
						t.points, grown = append(t.points, p), true
					}
				}
			}
		}
	}
	for _, name := range sortedKeys(b.texts) {
		if t := b.texts[name]; len(t.points) == 0 {
			delete(b.texts, name)
		} else {
			t.group = b.next()
		}
	}
}

func (b *board) pointsOf(name string) []*point {
	if t := b.texts[name]; t != nil {
		return t.points
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// findCode finds the points within functions, and has texts that are mutated be variables.
func (b *board) findCode(s *source, f *file) {
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil {
				w := &walk{board: b, source: s, file: f, function: functionName(d)}
				w.block(d.Body.List)
			}
		case *ast.GenDecl:
			w := &walk{board: b, source: s, file: f}
			for _, spec := range d.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				if b.texts[s.path+"."+v.Names[0].Name] != nil {
					w.variable(d, v)
				} else if d.Tok == token.VAR {
					for _, value := range v.Values {
						w.function = v.Names[0].Name
						w.expr(value)
					}
				}
			}
		}
	}
}

func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	for {
		switch r := t.(type) {
		case *ast.StarExpr:
			t = r.X
			continue
		case *ast.IndexExpr:
			t = r.X
			continue
		case *ast.Ident:
			return r.Name + "." + d.Name.Name
		}
		return d.Name.Name
	}
}

// walk goes through a function, or through the text outside of functions.
type walk struct {
	*board
	source   *source
	file     *file
	function string
	outside  *text // nil within a function
}

func (w *walk) offset(p token.Pos) int { return w.fset.Position(p).Offset }

func (w *walk) text(from, to token.Pos) string {
	return oneLine(string(w.file.text[w.offset(from):w.offset(to)]))
}

func (w *walk) code(n ast.Node) string { return w.text(n.Pos(), n.End()) }

// add makes a point.
func (w *walk) add(at token.Pos, kind, before, after string) *point {
	p := &point{
		id: w.next(), source: w.source, file: w.file, line: w.fset.Position(at).Line, function: w.function,
		kind: kind, before: before, after: after,
	}
	w.points = append(w.points, p)
	if w.outside != nil {
		w.outside.points = append(w.outside.points, p)
	}
	return p
}

// write has the text be written otherwise as long as some of the points are there.
func (w *walk) write(points []*point, edits ...edit) {
	w.seq++
	for i := range edits {
		edits[i].seq = w.seq
	}
	w.sites[w.file] = append(w.sites[w.file], &site{points, func([]*point) []edit { return edits }})
}

// around puts text around a node, for one point.
func (w *walk) around(n ast.Node, p *point, open, closing string) {
	w.write([]*point{p}, edit{from: w.offset(n.Pos()), to: w.offset(n.End()), open: open, closing: closing})
}

// variable makes a constant a variable, so that it can be made of another text.
func (w *walk) variable(d *ast.GenDecl, v *ast.ValueSpec) {
	if d.Tok != token.CONST {
		return
	}
	e := edit{from: w.offset(v.Pos()), to: w.offset(v.End()), open: "); var (", closing: "; ); const (", seq: -1} // outside of all else
	if !d.Lparen.IsValid() {
		from := w.offset(d.Pos())
		e = edit{from: from, to: from + len("const"), text: "var  "}
	}
	w.sites[w.file] = append(w.sites[w.file], &site{nil, func([]*point) []edit { return []edit{e} }})
}

func (w *walk) block(list []ast.Stmt) {
	for _, s := range list {
		w.drop(s)
		w.stmt(s)
	}
}

// stmt finds points in a statement and below.
func (w *walk) stmt(s ast.Stmt) {
	if s == nil || w.logs(s) {
		return
	}
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			w.block(n.List)
			return false
		case *ast.CaseClause:
			w.block(n.Body)
			return false
		case *ast.CommClause:
			w.stmt(n.Comm)
			w.block(n.Body)
			return false
		case *ast.IfStmt:
			w.ifStmt(n)
			return false
		case *ast.ForStmt:
			w.stmt(n.Init)
			if n.Cond != nil {
				w.negate(n.Cond)
				w.expr(n.Cond)
			}
			w.stmt(n.Post)
			w.block(n.Body.List)
			return false
		case *ast.SwitchStmt:
			w.switchStmt(n)
			return false
		case *ast.ReturnStmt:
			for _, r := range n.Results {
				w.negateResult(r)
				w.expr(r)
			}
			return false
		case *ast.GenDecl:
			w.localConst(n)
			return n.Tok != token.CONST && n.Tok != token.TYPE
		case ast.Expr:
			w.expr(n)
			return false
		}
		return true
	})
}

func (w *walk) ifStmt(n *ast.IfStmt) {
	w.stmt(n.Init)
	switch {
	case w.onlyLogs(n):
		return
	case !w.plumbing(n):
		w.negate(n.Cond)
	}
	w.expr(n.Cond)
	w.block(n.Body.List)
	if block, ok := n.Else.(*ast.BlockStmt); ok {
		w.block(block.List)
	} else {
		w.stmt(n.Else)
	}
}

func (w *walk) switchStmt(n *ast.SwitchStmt) {
	w.stmt(n.Init)
	if n.Tag != nil {
		w.expr(n.Tag)
	}
	for _, c := range n.Body.List {
		clause := c.(*ast.CaseClause)
		if n.Tag == nil {
			for _, e := range clause.List {
				w.negate(e)
				w.expr(e)
			}
		}
		w.block(clause.Body)
	}
}

// localConst makes constants of SQL within a function variables.
func (w *walk) localConst(d *ast.GenDecl) {
	if d.Tok != token.CONST {
		return
	}
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		before := w.seq
		for _, value := range v.Values {
			if isString(w.source.info.Types[value].Type) {
				w.expr(value)
			}
		}
		if w.seq != before {
			w.variable(d, v)
		}
	}
}

// onlyLogs tells whether a condition only decides what is logged.
func (w *walk) onlyLogs(n *ast.IfStmt) bool {
	return n.Else == nil && !slices.ContainsFunc(n.Body.List, func(s ast.Stmt) bool { return !w.logs(s) })
}

// plumbing tells whether a condition only hands an error on.
func (w *walk) plumbing(n *ast.IfStmt) bool {
	c, ok := n.Cond.(*ast.BinaryExpr)
	if !ok || len(n.Body.List) != 1 || !types.Identical(w.source.info.TypeOf(c.X), types.Universe.Lookup("error").Type()) {
		return false
	}
	_, ok = n.Body.List[0].(*ast.ReturnStmt)
	return ok
}

// logs tells whether a statement only writes a line to the log.
func (w *walk) logs(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && strings.Contains(fmt.Sprint(w.source.info.TypeOf(method.X)), "zerolog.Event")
}

// upkeep are calls without which only a resource is kept for longer, or all stands still.
var upkeep = []string{"cancel", "stop", "Stop", "Close", "Done", "Lock", "Unlock", "RLock", "RUnlock", "panic", "recover"}

func calls(n ast.Node, names ...string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return slices.Contains(names, f.Name)
	case *ast.SelectorExpr:
		return slices.Contains(names, f.Sel.Name)
	}
	return false
}

// drop leaves a statement out.
func (w *walk) drop(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.ExprStmt:
		if calls(s.X, upkeep...) || w.logs(s) {
			return
		}
	case *ast.DeferStmt:
		if calls(s.Call, upkeep...) {
			return
		}
	case *ast.GoStmt, *ast.SendStmt, *ast.IncDecStmt:
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE || w.handsErrorOn(s) {
			return
		}
	case *ast.BranchStmt:
		if s.Tok != token.BREAK && s.Tok != token.CONTINUE {
			return
		}
	case *ast.ReturnStmt:
		if len(s.Results) > 0 {
			return
		}
	default:
		return
	}
	p := w.add(s.Pos(), "statement dropped", w.code(s), "none")
	w.around(s, p, fmt.Sprintf("if mutant.Keep(%d) { ", p.id), " }")
}

// handsErrorOn tells whether an assignment only words or collects errors.
func (w *walk) handsErrorOn(s *ast.AssignStmt) bool {
	for _, l := range s.Lhs {
		if name, ok := l.(*ast.Ident); ok && name.Name == "_" {
			continue
		}
		if !types.Identical(w.source.info.TypeOf(l), types.Universe.Lookup("error").Type()) {
			return false
		}
	}
	return len(s.Rhs) == 1 && calls(s.Rhs[0], "Join", "Errorf")
}

func unparen(e ast.Expr) ast.Expr { return ast.Unparen(e) }

func isLogical(e ast.Expr) bool {
	b, ok := unparen(e).(*ast.BinaryExpr)
	return ok && (b.Op == token.LAND || b.Op == token.LOR)
}

// negate negates a condition. Of one that consists of several, each is negated where it is met.
func (w *walk) negate(e ast.Expr) {
	t := w.source.info.Types[e]
	if basic, ok := t.Type.(*types.Basic); isLogical(e) || t.Value != nil || !ok || basic.Info()&types.IsBoolean == 0 {
		return
	}
	e = unparen(e)
	p := w.add(e.Pos(), "condition negated", w.code(e), "!("+w.code(e)+")")
	w.around(e, p, fmt.Sprintf("mutant.Not(%d, ", p.id), ")")
}

// negateResult negates what a function returns, if that is a condition.
func (w *walk) negateResult(e ast.Expr) {
	switch unparen(e).(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr, *ast.CallExpr:
		if t := w.source.info.TypeOf(e); t != nil && (t == types.Typ[types.Bool] || t == types.Typ[types.UntypedBool]) {
			w.negate(e)
		}
	}
}

// expr finds points in an expression.
func (w *walk) expr(e ast.Expr) {
	if e == nil {
		return
	}
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			if w.outside == nil {
				w.block(n.Body.List)
			}
			return false
		case *ast.ArrayType, *ast.StructType, *ast.FuncType, *ast.InterfaceType, *ast.MapType:
			return false
		case *ast.KeyValueExpr:
			w.expr(n.Value)
			return false
		case ast.Expr:
			return w.one(n)
		}
		return true
	})
}

// one finds the points of an expression itself, and tells whether to look at its parts.
func (w *walk) one(e ast.Expr) bool {
	t := w.source.info.Types[e]
	if t.IsType() {
		return false
	}
	if name := w.textName(e); name != "" {
		w.use(e, name)
		return false
	}
	if t.Value != nil {
		w.constant(e, t)
		return false
	}
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return w.binary(e, t)
	case *ast.CallExpr:
		w.timeOrder(e)
	case *ast.SelectorExpr:
		w.expr(e.X)
		return false
	}
	return true
}

// textName is the name of a text outside of functions, if e is one.
func (w *walk) textName(e ast.Expr) string {
	id, ok := e.(*ast.Ident)
	if s, isSelector := e.(*ast.SelectorExpr); isSelector {
		id, ok = s.Sel, true
	}
	if !ok {
		return ""
	}
	o := w.source.info.Uses[id]
	if o == nil || o.Pkg() == nil || o.Parent() != o.Pkg().Scope() || !isString(o.Type()) {
		return ""
	}
	return o.Pkg().Path() + "." + o.Name()
}

// use notes where a text is used.
func (w *walk) use(e ast.Expr, name string) {
	if w.outside != nil {
		w.outside.uses = append(w.outside.uses, name)
		return
	}
	if t := w.texts[name]; t != nil {
		w.seq++
		around := edit{from: w.offset(e.Pos()), to: w.offset(e.End()), open: fmt.Sprintf("mutant.Used(%d, ", t.group), closing: ")", seq: w.seq}
		w.sites[w.file] = append(w.sites[w.file], &site{nil, func([]*point) []edit { return []edit{around} }})
	}
}

func (w *walk) constant(e ast.Expr, t types.TypeAndValue) {
	switch {
	case t.Value.Kind() == constant.String:
		switch unparen(e).(type) {
		case *ast.BasicLit, *ast.BinaryExpr:
			w.sql(e)
		}
	case w.outside == nil && fmt.Sprint(t.Type) == "time.Duration" && constant.Sign(t.Value) > 0:
		text := w.code(e)
		twice := w.add(e.Pos(), "duration doubled", text, "2 * "+text)
		none := w.add(e.Pos(), "duration zeroed", text, "0")
		w.write([]*point{twice, none}, edit{
			from: w.offset(e.Pos()), to: w.offset(e.End()), open: fmt.Sprintf("mutant.Lasting(%d, %d, ", twice.id, none.id), closing: ")",
		})
	}
}

var bounds = map[token.Token]struct {
	function, moved, constant string
	by                        int
}{ // of a constant on the right
	token.LSS: {"Less", "<=", "Fewer", -1},
	token.LEQ: {"LessEqual", "<", "More", 1},
	token.GTR: {"Greater", ">=", "More", 1},
	token.GEQ: {"GreaterEqual", ">", "Fewer", -1},
}

func (w *walk) binary(e *ast.BinaryExpr, t types.TypeAndValue) bool {
	if e.Op == token.ADD && isString(t.Type) {
		w.sql(e)
		return false
	}
	if w.outside != nil {
		return true
	}
	switch e.Op {
	case token.LAND:
		w.swap(e, "And", "||")
	case token.LOR:
		w.swap(e, "Or", "&&")
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		w.bound(e)
	case token.EQL, token.NEQ:
		w.shift(e, e.Y, "More", 1)
	}
	return true
}

func (w *walk) swap(e *ast.BinaryExpr, function, op string) {
	p := w.add(e.OpPos, "and/or swapped", w.code(e), w.code(e.X)+" "+op+" "+w.code(e.Y))
	at := w.offset(e.OpPos)
	w.write(
		[]*point{p},
		edit{from: w.offset(e.Pos()), to: w.offset(e.End()), open: fmt.Sprintf("mutant.%s(%d, ", function, p.id), closing: ")})"},
		edit{from: at, to: at + 2, text: ", func() bool { return ("},
	)
	w.negate(e.X)
	w.negate(e.Y)
}

func (w *walk) bound(e *ast.BinaryExpr) {
	if basic, ok := w.source.info.TypeOf(e.X).Underlying().(*types.Basic); !ok || basic.Info()&types.IsOrdered == 0 {
		return
	}
	b := bounds[e.Op]
	p := w.add(e.OpPos, "bound moved", w.code(e), w.code(e.X)+" "+b.moved+" "+w.code(e.Y))
	at := w.offset(e.OpPos)
	w.write(
		[]*point{p},
		edit{from: w.offset(e.Pos()), to: w.offset(e.End()), open: fmt.Sprintf("mutant.%s(%d, ", b.function, p.id), closing: ")"},
		edit{from: at, to: at + len(e.Op.String()), text: ","},
	)
	w.shift(e, e.Y, b.constant, b.by)
}

// shift moves the whole number that something is compared with.
func (w *walk) shift(e *ast.BinaryExpr, n ast.Expr, function string, by int) {
	t := w.source.info.Types[n]
	if t.Value == nil || t.Value.Kind() != constant.Int {
		return
	}
	if basic, ok := t.Type.Underlying().(*types.Basic); !ok || basic.Info()&types.IsInteger == 0 || fmt.Sprint(t.Type) == "time.Duration" {
		return
	}
	if basic, _ := t.Type.Underlying().(*types.Basic); basic.Info()&types.IsUnsigned != 0 && by < 0 && constant.Sign(t.Value) == 0 {
		return
	}
	name, ok := w.typeName(t.Type)
	if !ok {
		return
	}
	number := w.code(n)
	moved := fmt.Sprintf("%s%+d", number, by)
	if v, exact := constant.Int64Val(t.Value); exact && number == strconv.FormatInt(v, 10) {
		moved = strconv.FormatInt(v+int64(by), 10)
	}
	p := w.add(n.Pos(), "constant moved", w.code(e), w.text(e.Pos(), n.Pos())+" "+moved)
	w.around(n, p, fmt.Sprintf("mutant.%s[%s](%d, ", function, name, p.id), ")")
}

// typeName is how a type is written in this file.
func (w *walk) typeName(t types.Type) (string, bool) {
	switch t := t.(type) {
	case *types.Basic:
		return t.Name(), t.Info()&types.IsUntyped == 0
	case *types.Named:
		if t.Obj().Pkg() == w.source.types {
			return t.Obj().Name(), true
		}
		for _, i := range w.file.ast.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); path == t.Obj().Pkg().Path() && i.Name == nil {
				return t.Obj().Pkg().Name() + "." + t.Obj().Name(), true
			}
		}
	}
	return "", false
}

// timeOrder moves a.Before(b) and a.After(b) by the instant.
func (w *walk) timeOrder(e *ast.CallExpr) {
	f, ok := e.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Before" && f.Sel.Name != "After" || len(e.Args) != 1 || fmt.Sprint(w.source.info.TypeOf(f.X)) != "time.Time" {
		return
	}
	moved := map[string]string{"Before": "After", "After": "Before"}[f.Sel.Name]
	x, y := w.code(f.X), w.code(e.Args[0])
	p := w.add(e.Pos(), "bound moved", w.code(e), fmt.Sprintf("!%s.%s(%s)", x, moved, y))
	w.write(
		[]*point{p},
		edit{from: w.offset(e.Pos()), to: w.offset(e.End()), open: fmt.Sprintf("mutant.%s(%d, ", f.Sel.Name, p.id), closing: ")"},
		edit{from: w.offset(f.X.End()), to: w.offset(e.Args[0].Pos()), text: ", "},
		edit{from: w.offset(e.Rparen), to: w.offset(e.Rparen) + 1, text: " "},
	)
}

// sql finds the points of a text of SQL.
func (w *walk) sql(e ast.Expr) {
	leaves := flatten(e)
	var pieces []piece
	var whole strings.Builder
	for _, leaf := range leaves {
		lit, isLiteral := leaf.(*ast.BasicLit)
		switch t := w.source.info.Types[leaf]; {
		case isLiteral:
			s, _ := strconv.Unquote(lit.Value)
			pieces = append(pieces, piece{text: s, literal: true})
			whole.WriteString(s)
		case t.Value != nil:
			pieces = append(pieces, piece{text: constant.StringVal(t.Value)})
		default:
			pieces = append(pieces, piece{text: w.code(leaf), opaque: true})
		}
		if !isLiteral {
			w.expr(leaf)
		}
	}
	if !looksLikeSQL.MatchString(whole.String()) {
		return
	}
	mutated := make([]map[*point]string, len(leaves))
	for _, c := range sqlChanges(pieces) {
		p := w.add(leaves[c.edits[0].piece].Pos(), "SQL "+c.kind, c.before, c.after)
		p.line += strings.Count(pieces[c.edits[0].piece].text[:c.edits[0].from], "\n")
		for i, text := range c.apply(pieces) {
			if mutated[i] == nil {
				mutated[i] = map[*point]string{}
			}
			mutated[i][p] = text
		}
	}
	for i, texts := range mutated {
		if len(texts) > 0 {
			w.literal(leaves[i], texts)
		}
	}
}

// literal has a literal be another one for each of its points.
func (w *walk) literal(n ast.Node, texts map[*point]string) {
	var points []*point
	for p := range texts {
		points = append(points, p)
	}
	slices.SortFunc(points, func(a, b *point) int { return cmp.Compare(a.id, b.id) })
	function := "TextHere"
	if w.outside != nil {
		function = "Text"
	}
	w.seq++
	seq, from, to := w.seq, w.offset(n.Pos()), w.offset(n.End())
	w.sites[w.file] = append(w.sites[w.file], &site{points, func(left []*point) []edit {
		var all strings.Builder
		for _, p := range left {
			fmt.Fprintf(&all, ", %d, %q", p.id, texts[p])
		}
		return []edit{{from: from, to: to, open: "mutant." + function + "(", closing: all.String() + ")", seq: seq}}
	}})
}

// apply returns the texts of the pieces that a change concerns.
func (c sqlChange) apply(pieces []piece) map[int]string {
	texts := map[int]string{}
	edits := slices.Clone(c.edits)
	slices.SortStableFunc(edits, func(a, b sqlEdit) int { return cmp.Compare(b.from, a.from) }) // the last first
	for _, e := range edits {
		text, ok := texts[e.piece]
		if !ok {
			text = pieces[e.piece].text
		}
		texts[e.piece] = text[:e.from] + e.text + text[e.to:]
	}
	return texts
}

func flatten(e ast.Expr) []ast.Expr {
	if b, ok := unparen(e).(*ast.BinaryExpr); ok && b.Op == token.ADD {
		return append(flatten(b.X), flatten(b.Y)...)
	}
	return []ast.Expr{unparen(e)}
}

func (p *point) where() string { return fmt.Sprintf("%s:%d", filepath.Base(p.file.path), p.line) }
