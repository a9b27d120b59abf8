// Code generated from csrc/ops.def by go generate ./go/tensor. DO NOT EDIT.

package tensor

// The operations.
const (
	OpDecode       Op = 1
	OpQuantizeRows Op = 2
	OpConvert      Op = 3
	OpPrepack      Op = 4
	OpMatMulT      Op = 5
	OpEmbed        Op = 6
	OpNorm         Op = 7
	OpRope         Op = 8
	OpKVStore      Op = 9
	OpAttend       Op = 10
	OpGLU          Op = 11
	OpAdd          Op = 12
	OpMul          Op = 13
	OpSoftmax      Op = 14
	OpSoftcap      Op = 15
	OpEncode       Op = 16
	OpProject      Op = 17
)

var ops = [...]OpInfo{
	{ID: OpDecode, Name: "decode"},
	{ID: OpQuantizeRows, Name: "quantize_rows", Operands: []Operand{
		{Name: "x", Layout: RowsLayout, Role: OperandIn},
		{Name: "y", Layout: RowsLayout, Role: OperandOut},
	}},
	{ID: OpConvert, Name: "convert", Operands: []Operand{
		{Name: "x", Layout: AnyLayout, Role: OperandIn},
		{Name: "y", Layout: AnyLayout, Role: OperandOut},
	}},
	{ID: OpPrepack, Name: "prepack", Operands: []Operand{
		{Name: "x", Layout: AnyLayout, Role: OperandIn},
		{Name: "y", Layout: AnyLayout, Role: OperandOut},
	}},
	{ID: OpMatMulT, Name: "matmul_t", Operands: []Operand{
		{Name: "x", Layout: EvenLayout, Role: OperandIn},
		{Name: "w", Layout: WeightLayout, Role: OperandIn},
		{Name: "y", Layout: EvenLayout, Role: OperandOut},
	}},
	{ID: OpEmbed, Name: "embed", Operands: []Operand{
		{Name: "table", Layout: AnyLayout, Role: OperandIn},
		{Name: "ids", Layout: AnyLayout, Role: OperandIn},
		{Name: "y", Layout: RowsLayout, Role: OperandOut},
	}, Params: []Param{{"scale", "float32"}}},
	{ID: OpNorm, Name: "norm", Operands: []Operand{
		{Name: "x", Layout: RowsLayout, Role: OperandPlace},
		{Name: "before", Layout: RowsLayout, Role: OperandPlace, Optional: true},
		{Name: "w", Layout: RowsLayout, Role: OperandIn},
		{Name: "after", Layout: RowsLayout, Role: OperandPlace, Optional: true},
		{Name: "sum", Layout: RowsLayout, Role: OperandOut, Optional: true},
		{Name: "y", Layout: RowsLayout, Role: OperandOut},
	}, Params: []Param{{"eps", "float32"}}},
	{ID: OpRope, Name: "rope", Operands: []Operand{
		{Name: "x", Layout: RowsLayout, Role: OperandPlace},
		{Name: "positions", Layout: AnyLayout, Role: OperandIn},
		{Name: "factors", Layout: AnyLayout, Role: OperandIn, Optional: true},
		{Name: "y", Layout: RowsLayout, Role: OperandOut},
	}, Params: []Param{{"params", "RopeParams"}}},
	{ID: OpKVStore, Name: "kv_store", Operands: []Operand{
		{Name: "k", Layout: RowsLayout, Role: OperandIn},
		{Name: "v", Layout: RowsLayout, Role: OperandIn},
		{Name: "positions", Layout: AnyLayout, Role: OperandIn},
		{Name: "sequences", Layout: AnyLayout, Role: OperandIn, Optional: true},
		{Name: "k_cache", Layout: RowsLayout, Role: OperandOut},
		{Name: "v_cache", Layout: RowsLayout, Role: OperandOut},
	}},
	{ID: OpAttend, Name: "attend", Operands: []Operand{
		{Name: "q", Layout: RowsLayout, Role: OperandIn},
		{Name: "k_cache", Layout: RowsLayout, Role: OperandIn},
		{Name: "v_cache", Layout: RowsLayout, Role: OperandIn},
		{Name: "positions", Layout: AnyLayout, Role: OperandIn},
		{Name: "sequences", Layout: AnyLayout, Role: OperandIn, Optional: true},
		{Name: "y", Layout: RowsLayout, Role: OperandOut},
	}, Params: []Param{{"params", "AttendParams"}}},
	{ID: OpGLU, Name: "glu", Operands: []Operand{
		{Name: "gate", Layout: RowsLayout, Role: OperandPlace},
		{Name: "up", Layout: RowsLayout, Role: OperandPlace},
		{Name: "y", Layout: RowsLayout, Role: OperandOut},
	}, Params: []Param{{"form", "GLUForm"}}},
	{ID: OpAdd, Name: "add", Operands: []Operand{
		{Name: "a", Layout: RowsLayout, Role: OperandPlace},
		{Name: "b", Layout: RowsLayout, Role: OperandIn},
		{Name: "y", Layout: RowsLayout, Role: OperandOut},
	}},
	{ID: OpMul, Name: "mul", Operands: []Operand{
		{Name: "a", Layout: RowsLayout, Role: OperandPlace},
		{Name: "b", Layout: RowsLayout, Role: OperandIn},
		{Name: "y", Layout: RowsLayout, Role: OperandOut},
	}},
	{ID: OpSoftmax, Name: "softmax", Operands: []Operand{
		{Name: "x", Layout: RowsLayout, Role: OperandPlace},
		{Name: "y", Layout: RowsLayout, Role: OperandOut},
	}, Params: []Param{{"scale", "float32"}}},
	{ID: OpSoftcap, Name: "softcap", Operands: []Operand{
		{Name: "x", Layout: RowsLayout, Role: OperandPlace},
		{Name: "y", Layout: RowsLayout, Role: OperandOut},
	}, Params: []Param{{"cap", "float32"}}},
	{ID: OpEncode, Name: "encode", Operands: []Operand{
		{Name: "x", Layout: AnyLayout, Role: OperandIn},
		{Name: "y", Layout: AnyLayout, Role: OperandOut},
	}},
	{ID: OpProject, Name: "project", Operands: []Operand{
		{Name: "x", Layout: EvenLayout, Role: OperandIn},
		{Name: "w", Layout: WeightLayout, Role: OperandIn, List: true},
		{Name: "bias", Layout: RowsLayout, Role: OperandIn, Optional: true, List: true},
		{Name: "y", Layout: EvenLayout, Role: OperandOut, List: true},
	}},
}

// RopeForm says which elements of a head form a rotated pair.
type RopeForm uint32

// The values of RopeForm.
const (
	RopeNormal RopeForm = 0 // pairs (2i, 2i+1)
	RopeNeoX   RopeForm = 1 // pairs (i, i + dims/2)
)

// RopeParams are the constants of a rotary position embedding (Su et al. 2021) with linear and YaRN scaling (Peng et
// al. 2023).
type RopeParams struct {
	Form            RopeForm // which elements form a pair
	Dims            uint32   // leading elements of each head that rotate; even, <= head_dim
	Base            float32  // theta_i = base^(-2i/dims)
	Scale           float32  // angle factor: 1 / context scaling
	ExtFactor       float32  // 0 = linear only, 1 = full YaRN mix
	AttnFactor      float32  // magnitude factor of cos and sin, 1 without YaRN
	BetaFast        float32  // YaRN: turns within the original context from which on a pair keeps its angles
	BetaSlow        float32  // YaRN: turns up to which a pair is scaled in full
	OriginalContext uint32   // YaRN: positions before scaling
}

// AttendParams are the constants of an attention.
type AttendParams struct {
	Scale   float32 // of q.k, e.g. 1/sqrt(head_dim)
	Softcap float32 // c > 0: scores become c * tanh(score / c); 0 = none
	Window  uint32  // position p sees max(0, p - window + 1) .. p; 0 = all
}

// GLUForm says which function gates.
type GLUForm uint32

// The values of GLUForm.
const (
	GLUSiLU     GLUForm = 0 // SwiGLU
	GLUGELUTanh GLUForm = 1 // GeGLU, tanh form
	GLUGELUErf  GLUForm = 2 // GeGLU, exact form
	GLUReLU     GLUForm = 3 // ReGLU
)
