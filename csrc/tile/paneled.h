/* panel.h of every form in EACH_PANELED. */
#include "q4_1/panel.h"
#include "q5_0/panel.h"
#include "q5_1/panel.h"
#include "q4_k/panel.h"
#include "q5_k/panel.h"
#include "q6_k/panel.h"
