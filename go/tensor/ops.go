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

// RopeForm says which elements of a head are rotated as a pair.
type RopeForm uint32

// The values of RopeForm.
const (
	RopeNormal RopeForm = 0 // pairs (2i, 2i+1)
	RopeNeoX   RopeForm = 1 // pairs (i, i + dims/2)
)

// RopeParams are the parameters of a rotary position embedding (Su et al. 2021) with linear and YaRN scaling (Peng et
// al. 2023).
type RopeParams struct {
	Form            RopeForm // which elements are rotated as a pair
	Dims            uint32   // how many elements of each head are rotated, from its first on; even, <= head_dim
	Base            float32  // theta_i = base^(-2i/dims)
	Scale           float32  // factor of the angles: 1 / context scaling
	ExtFactor       float32  // 0 = linear scaling only, 1 = full YaRN
	AttnFactor      float32  // factor of cos and sin; 1 without YaRN
	BetaFast        float32  // YaRN: a pair with at least so many turns in original_context is not scaled
	BetaSlow        float32  // YaRN: a pair with at most so many turns in original_context is scaled fully
	OriginalContext uint32   // YaRN: context length that the model was first trained with
}

// AttendParams are the parameters of attention.
type AttendParams struct {
	Scale   float32 // factor of q.k, e.g. 1/sqrt(head_dim)
	Softcap float32 // scores become softcap * tanh(score / softcap); 0 = they stay
	Window  uint32  // a token sees its own and the window - 1 positions before it; 0 = all
}

// GLUForm says which activation function act is applied to the gate.
type GLUForm uint32

// The values of GLUForm.
const (
	GLUSiLU     GLUForm = 0 // SwiGLU
	GLUGELUTanh GLUForm = 1 // GeGLU, tanh form
	GLUGELUErf  GLUForm = 2 // GeGLU, exact form
	GLUReLU     GLUForm = 3 // ReGLU
)
