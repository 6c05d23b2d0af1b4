"""Neural networks: modules, functions, starting values."""

from ..namespaces import serve
from . import attention as attention
from . import functional as functional
from . import grad as grad
from . import init as init
from . import utils as utils
from .container import *  # noqa: F403
from .convolution import *  # noqa: F403
from .dropout import *  # noqa: F403
from .functional_modules import *  # noqa: F403
from .layers import *  # noqa: F403
from .losses import *  # noqa: F403
from .module import Module as Module
from .multihead import *  # noqa: F403
from .normalization import *  # noqa: F403
from .padding import *  # noqa: F403
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
from .pooling import *  # noqa: F403
from .recurrent import *  # noqa: F403
from .transformer import *  # noqa: F403

serve(__name__)
